"""Block-sparse sums over real nodes: the expression to the bit, and only what is not zero moves."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from innet.collectives.keyed.pairs import SPARSE_BLOCKS
from innet.collectives.keyed.reduction import SparseBlocks, cut_union
from innet.errors import CollectiveError, MismatchError
from innet.plans import Plan
from innet.topology import load_topology
from tests.collectives.cluster import Cluster
from tests.collectives.keyed.reference import evaluate_pairs
from tests.collectives.test_hostile_network import disorder

WIDTH = SPARSE_BLOCKS.width
SEGMENT_BYTES = 700  # five blocks
ALGORITHMS = ["inc", "ps", "ring", "halving-doubling"]


def expected(plan: Plan, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The sum of all ranks, segment by segment, each by the root of its shard."""
    size = arrays[0].size
    rows = [np.pad(array.reshape(-1), (0, -size % WIDTH)).reshape(-1, WIDTH) for array in arrays]
    present = [np.flatnonzero((mine != 0).any(axis=1)) for mine in rows]
    union = functools.reduce(np.union1d, present)
    total = np.zeros_like(rows[0])
    for shard, first in enumerate(range(0, len(union), SPARSE_BLOCKS.capacity(SEGMENT_BYTES))):
        in_segment = union[first : first + SPARSE_BLOCKS.capacity(SEGMENT_BYTES)]
        have = [np.intersect1d(indices, in_segment) for indices in present]
        contributions = [(h, mine[h]) for h, mine in zip(have, rows, strict=True)]
        indices, blocks = evaluate_pairs(plan, shard, contributions, "sum")
        total[indices] = blocks
    return total.reshape(-1)[:size].reshape(arrays[0].shape)


def assert_same(result: object, wanted: np.ndarray) -> None:
    assert isinstance(result, np.ndarray), repr(result)
    assert result.dtype == wanted.dtype
    assert result.shape == wanted.shape
    assert result.tobytes() == wanted.tobytes()


def sparse_array(rank: int, size: int, density: float) -> np.ndarray:
    """A share ``density`` of its blocks is not zero; sums depend on the order of adding."""
    random = np.random.default_rng((rank, size))
    array = random.standard_normal(size) * 10.0 ** random.integers(-3, 4, size)
    blocks = random.random(-(-size // WIDTH)) < density
    return np.where(np.repeat(blocks, WIDTH)[:size], array, 0).astype(np.float32)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    size=st.sampled_from([1, 31, 32, 33, 1000, 4096, 9999]),
    densities=st.lists(st.sampled_from([0.0, 0.02, 0.5, 1.0]), min_size=4, max_size=4),
)
def test_the_sum_is_exact_for_any_nonzero_blocks(cluster_of, algorithm, size, densities):
    cluster = cluster_of(algorithm)
    arrays = [sparse_array(rank, size, density) for rank, density in enumerate(densities)]
    wanted = expected(cluster.plan, arrays)
    for result in cluster.run(lambda comm: comm.allreduce_blocks(arrays[comm.rank])):
        assert_same(result, wanted)


@pytest.mark.parametrize("algorithm", ["inc", "ring"])
def test_the_sum_survives_loss_reordering_and_duplicates(algorithm):
    print("seed", 7)
    taps = {(f"h{rank}", "s0"): disorder(7 + rank) for rank in range(4)}
    arrays = [sparse_array(rank, 20_000, 0.2) for rank in range(4)]
    topology = load_topology("star:4")
    with Cluster(topology, algorithm, tamper=taps, segment_bytes=SEGMENT_BYTES) as cluster:
        wanted = expected(cluster.plan, arrays)
        for result in cluster.run(lambda comm: comm.allreduce_blocks(arrays[comm.rank])):
            assert_same(result, wanted)


def test_the_switch_adds_and_zero_blocks_are_not_sent():
    with Cluster(load_topology("star:4"), "inc", segment_bytes=SEGMENT_BYTES) as cluster:
        arrays = [np.zeros(100_000, np.float32) for _ in range(4)]
        for rank, array in enumerate(arrays):
            array[: 32 * 40] = rank + 1
        for result in cluster.run(lambda comm: comm.allreduce_blocks(arrays[comm.rank])):
            assert_same(result, np.add.reduce(arrays))
        # 40 blocks are 8 segments; the 3125 of the whole array would be 625.
        completed = cluster.status("s0")["reducer"]["reductions_completed"]
        assert 8 < completed < 30
        for host in cluster.topology.hosts:
            assert cluster.status(host)["reducer"]["reductions_completed"] == 0


@pytest.mark.parametrize("size", [0, 5, 10_000])
def test_all_zero_inputs_give_zeros(cluster_of, size):
    zeros = np.zeros(size, np.float32)
    for result in cluster_of("inc").run(lambda comm: comm.allreduce_blocks(zeros)):
        assert_same(result, zeros)


def test_more_blocks_than_fit_a_segment_are_summed():
    """A union is bounded by itself, not by how many ranks have its blocks."""
    with Cluster(load_topology("star:8"), segment_bytes=SEGMENT_BYTES) as cluster:
        block = np.ones(WIDTH, np.float32)
        for result in cluster.run(lambda comm: comm.allreduce_blocks(block)):
            assert_same(result, 8 * block)


@pytest.mark.parametrize("place", [3333, 4999])  # in a whole block, and in the last, shorter one
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_block_with_nan_or_infinity_is_sent(cluster_of, bad, place):
    def program(comm):
        array = np.zeros(5000, np.float32)
        array[place if comm.rank == 2 else 17] = bad if comm.rank == 2 else 1
        return comm.allreduce_blocks(array)

    wanted = np.zeros(5000, np.float32)
    wanted[17], wanted[place] = 3, bad
    for result in cluster_of("inc").run(program):
        np.testing.assert_array_equal(result, wanted)


def test_results_are_written_to_out_and_inputs_can_change_after_the_call(cluster_of):
    def program(comm):
        array = np.full((50, 70), comm.rank, np.float32)
        work = comm.iallreduce_blocks(array)
        array[:] = -1
        strided = np.empty((50, 140), np.float32)[:, ::2]
        total = comm.allreduce_blocks(np.full((50, 70), comm.rank, np.float32), out=strided)
        in_place = np.full((50, 70), comm.rank, np.float32)
        comm.allreduce_blocks(in_place, out=in_place)
        return total is strided and all(
            (part == 6).all() for part in (work.wait(), total, in_place)
        )

    assert cluster_of("inc").run(program) == [True] * 4


@pytest.mark.parametrize("other_size", [33, 2000])
def test_different_sizes_raise_mismatch_errors_on_all_ranks(other_size):
    """Also where the ranks have as many bytes of block numbers."""
    with Cluster(load_topology("star:4"), segment_bytes=SEGMENT_BYTES) as cluster:
        results = cluster.run(
            lambda comm: comm.allreduce_blocks(
                np.ones(other_size if comm.rank == 2 else 32, np.float32)
            )
        )
        assert all(isinstance(result, MismatchError) for result in results), results


@pytest.mark.parametrize(
    "call",
    [
        lambda comm: comm.allreduce_blocks(np.zeros(5)),
        lambda comm: comm.allreduce_blocks(np.broadcast_to(np.float32(0), 1 << 38)),
        lambda comm: comm.allreduce_blocks(np.zeros(5, np.float32), out=np.zeros(6, np.float32)),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(cluster_of, call):
    cluster = cluster_of("inc")
    assert all(isinstance(result, CollectiveError) for result in cluster.run(call))
    assert all((r == 4).all() for r in cluster.run(lambda comm: comm.allreduce(np.ones(3))))


def test_packets_too_small_for_a_block_are_refused():
    with Cluster(load_topology("star:2"), segment_bytes=128) as cluster:
        for result in cluster.run(lambda comm: comm.allreduce_blocks(np.ones(5, np.float32))):
            assert isinstance(result, CollectiveError), repr(result)
            assert "larger MTU" in str(result)


@given(st.integers(0, 400), st.sampled_from([0.0, 0.1, 1.0]))
def test_splitting_and_joining_blocks_restores_the_array(size, density):
    array = sparse_array(0, size, density)
    blocks = SparseBlocks.of(array)
    again = np.full(size, np.nan, np.float32)
    blocks.write(again)
    assert_same(again, array)
    assert (np.flatnonzero(np.unpackbits(blocks.presence())) == blocks.indices).all()


@given(st.sets(st.integers(0, 500)))
def test_all_segments_of_a_union_except_the_last_are_full(indices):
    union = np.array(sorted(indices), np.int64)
    partition = cut_union(union, SEGMENT_BYTES)
    held = np.diff(partition.ends(union), prepend=0)
    assert held.sum() == partition.pairs == len(union)
    assert (held[:-1] == SPARSE_BLOCKS.capacity(SEGMENT_BYTES)).all()
    assert held[-1] <= SPARSE_BLOCKS.capacity(SEGMENT_BYTES)
