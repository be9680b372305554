"""Reductions by key over real nodes: the expression to the bit, whatever the network does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from innet.collectives.keyed.pairs import COARSE_BUCKETS_LOG2 as COARSE
from innet.collectives.keyed.pairs import Pairs, buckets_needed_log2, count_keys, cut
from innet.errors import (
    Cancelled,
    CollectiveError,
    DeadlineExceeded,
    MismatchError,
    ReductionOverflow,
)
from innet.plans import Plan
from innet.topology import load_topology
from tests.collectives.cluster import Cluster
from tests.collectives.keyed.reference import evaluate_pairs
from tests.collectives.test_hostile_network import disorder

SEGMENT_BYTES = 512
ALGORITHMS = ["inc", "ps", "ring", "halving-doubling"]
KeysAndValues = tuple[np.ndarray, np.ndarray]


def expected(plan: Plan, contributions: Sequence[KeysAndValues], op: str) -> KeysAndValues:
    """The union over all ranks, segment by segment, each by the root of its shard."""
    everybody = [Pairs.combined(keys, values, op) for keys, values in contributions]
    capacity = everybody[0].type.layout.capacity(SEGMENT_BYTES)

    def counts(buckets_log2: int) -> np.ndarray:
        counted = [count_keys(pairs.mixed, buckets_log2) for pairs in everybody]
        total: np.ndarray = np.add.reduce(counted, dtype=np.int32)
        return total

    needed_log2 = buckets_needed_log2(counts(COARSE), capacity)
    partition = cut(counts(needed_log2), capacity, everybody[0].type.mixer.bits)
    found = []
    for shard in range(partition.segments):
        in_segment = []
        for pairs in everybody:
            ends = np.concatenate(([0], partition.ends(pairs.mixed)))
            mine = slice(ends[shard], ends[shard + 1])
            in_segment.append((pairs.mixed[mine], pairs.values[mine]))
        found.append(evaluate_pairs(plan, shard, in_segment, op))
    mixed, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Pairs(everybody[0].type, mixed, values).unmixed()


def assert_same(result: object, wanted: KeysAndValues) -> None:
    assert isinstance(result, tuple), repr(result)
    for got, want in zip(result, wanted, strict=True):
        assert got.dtype == want.dtype
        assert got.tobytes() == want.tobytes()


def some_pairs(rank: int, count: int, key_type: type, value_type: type) -> KeysAndValues:
    """Keys of which others have many too, and values whose sum depends on the order of adding."""
    random = np.random.default_rng((rank, count))
    keys: np.ndarray = random.integers(0, max(1, 2 * count), count).astype(key_type)
    return keys, (random.standard_normal(count) * 10.0 ** random.integers(-3, 4, count)).astype(
        value_type
    )


@st.composite
def contributions(draw: st.DrawFn) -> list[KeysAndValues]:
    key_type = draw(st.sampled_from([np.uint32, np.uint64, np.int64]))
    value_type = draw(st.sampled_from([np.float32, np.float64]))
    sizes = draw(st.lists(st.sampled_from([0, 1, 40, 700]), min_size=4, max_size=4))
    return [some_pairs(rank, size, key_type, value_type) for rank, size in enumerate(sizes)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs=contributions(), op=st.sampled_from(["sum", "min", "max", "prod"]))
def test_the_sum_is_exact_for_any_pairs(cluster_of, algorithm, pairs, op):
    cluster = cluster_of(algorithm)
    wanted = expected(cluster.plan, pairs, op)
    for result in cluster.run(lambda comm: comm.reduce_by_key(*pairs[comm.rank], op=op)):
        assert_same(result, wanted)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_sum_survives_loss_reordering_and_duplicates(algorithm):
    print("seed", 7)
    taps = {(f"h{rank}", "s0"): disorder(7 + rank) for rank in range(4)}
    pairs = [some_pairs(rank, 1000, np.uint64, np.float64) for rank in range(4)]
    topology = load_topology("star:4")
    with Cluster(topology, algorithm, tamper=taps, segment_bytes=SEGMENT_BYTES) as cluster:
        wanted = expected(cluster.plan, pairs, "sum")
        for result in cluster.run(lambda comm: comm.reduce_by_key(*pairs[comm.rank])):
            assert_same(result, wanted)


@pytest.mark.parametrize("slots", [0, 2])
def test_switches_without_free_slots_give_the_same_bits(slots):
    topology = load_topology("leaf-spine:2x2x2")
    pairs = [some_pairs(rank, 500, np.uint32, np.float32) for rank in range(4)]
    with Cluster(topology, segment_bytes=SEGMENT_BYTES) as cluster:
        plan = cluster.plan
    with Cluster(topology.with_overrides(slots=slots), plan, segment_bytes=SEGMENT_BYTES) as scarce:
        wanted = expected(plan, pairs, "sum")
        for result in scarce.run(lambda comm: comm.reduce_by_key(*pairs[comm.rank])):
            assert_same(result, wanted)
        refused = sum(scarce.status(s)["reducer"]["refused_no_slot"] for s in topology.switches)
        assert refused > 0, "the test needs refusals to mean something"


def test_the_switch_adds_equal_keys():
    with Cluster(load_topology("star:4"), "inc", segment_bytes=SEGMENT_BYTES) as cluster:
        pairs = [some_pairs(rank, 500, np.uint64, np.float64) for rank in range(4)]
        union, *_ = cluster.run(lambda comm: comm.reduce_by_key(*pairs[comm.rank]))
        segments = len(union[0]) * 16 / SEGMENT_BYTES
        assert cluster.status("s0")["reducer"]["reductions_completed"] > segments
        for host in cluster.topology.hosts:
            assert cluster.status(host)["reducer"]["reductions_completed"] == 0


def test_only_the_root_gets_the_result(cluster_of):
    cluster = cluster_of("inc")
    pairs = [some_pairs(rank, 100, np.uint64, np.float64) for rank in range(4)]
    for root in (2, 0):
        results = cluster.run(
            lambda comm, root=root: comm.reduce_by_key(*pairs[comm.rank], root=root)
        )
        assert_same(results[root], expected(cluster.plan, pairs, "sum"))
        assert [result is None for result in results] == [rank != root for rank in range(4)]


def test_empty_inputs_give_an_empty_result(cluster_of):
    empty = (np.array([], np.uint64), np.array([], np.int64))
    for result in cluster_of("ring").run(lambda comm: comm.reduce_by_key(*empty)):
        assert_same(result, empty)


def test_operations_progress_in_the_background_and_can_be_awaited_in_any_order(cluster_of):
    """Ranks wait for what they started in different orders, with other collectives between."""
    cluster = cluster_of("inc")
    pairs = [some_pairs(rank, 900, np.uint64, np.float64) for rank in range(4)]

    def program(comm):
        works = [comm.ireduce_by_key(*pairs[comm.rank]) for _ in range(5)]
        sums = [comm.iallreduce(np.ones(100)) for _ in range(5)]
        order = works + sums if comm.rank % 2 else sums + works
        for work in order:
            work.wait()
        return [work.wait() for work in works], [work.wait() for work in sums]

    wanted = expected(cluster.plan, pairs, "sum")
    for outcome in cluster.run(program):
        assert isinstance(outcome, tuple), outcome
        for result in outcome[0]:
            assert_same(result, wanted)
        assert all((result == 4).all() for result in outcome[1])


def test_results_can_be_awaited(cluster_of):
    cluster = cluster_of("inc")
    pairs = [some_pairs(rank, 50, np.uint64, np.float64) for rank in range(4)]

    def program(comm):
        async def both():
            return await asyncio.gather(
                comm.ireduce_by_key(*pairs[comm.rank]), comm.ireduce_by_key(*pairs[comm.rank])
            )

        return asyncio.run(both())

    wanted = expected(cluster.plan, pairs, "sum")
    for results in cluster.run(program):
        for result in results:
            assert_same(result, wanted)


def test_sparse_vectors_are_added(cluster_of):
    def program(comm):
        random = np.random.default_rng(comm.rank)
        vector = np.zeros(10_000)
        top = random.choice(10_000, 300, replace=False)
        vector[top] = random.integers(-99, 99, 300)
        return vector, comm.allreduce_sparse(top, vector[top], len(vector))

    results = cluster_of("inc").run(program)
    total = sum(vector for vector, _ in results)
    for _, summed in results:
        np.testing.assert_array_equal(summed, total)


def test_overflow_raises_on_all_ranks_and_the_next_call_is_right(cluster_of):
    cluster = cluster_of("inc")
    most = np.iinfo(np.int64).max
    key = np.array([5], np.uint64)
    results = cluster.run(lambda comm: comm.reduce_by_key(key, np.array([most])))
    assert all(isinstance(result, ReductionOverflow) for result in results), results
    for result in cluster.run(lambda comm: comm.reduce_by_key(key, np.array([1]))):
        assert_same(result, (key, np.array([4])))


@pytest.mark.parametrize(
    "type_of_rank_2", [(np.uint32, np.float64), (np.uint64, np.float32), (np.uint64, np.int64)]
)
def test_different_types_raise_mismatch_errors_on_all_ranks(type_of_rank_2):
    def program(comm):
        keys, values = type_of_rank_2 if comm.rank == 2 else (np.uint64, np.float64)
        return comm.reduce_by_key(np.arange(9, dtype=keys), np.ones(9, values))

    with Cluster(load_topology("star:4"), segment_bytes=SEGMENT_BYTES) as cluster:
        for result in cluster.run(program):
            assert isinstance(result, MismatchError), repr(result)
            assert "reduce_by_key" in str(result)


def test_an_absent_rank_is_named():
    with Cluster(load_topology("star:3"), timeout_s=1.5) as cluster:
        results = cluster.run(
            lambda comm: None if comm.rank == 1 else comm.reduce_by_key(np.arange(3), np.ones(3))
        )
        for result in (results[0], results[2]):
            assert isinstance(result, DeadlineExceeded), repr(result)
            assert "1" in str(result)
            assert "reduce_by_key" in str(result)


def test_a_cancelled_call_ends_and_blocks_no_later_call():
    given_up = threading.Event()

    def give_up(comm):
        if comm.rank == 1:
            assert given_up.wait(20)
        work = comm.ireduce_by_key(np.arange(5), np.ones(5))
        work.cancel()
        given_up.set()
        return work.exception()

    with Cluster(load_topology("star:2")) as cluster:
        assert all(isinstance(error, Cancelled) for error in cluster.run(give_up))
        # More than may be under way at once: numbers that stayed reserved would stop the last.
        for _ in range(6):
            for result in cluster.run(lambda comm: comm.allreduce(np.ones(3))):
                assert isinstance(result, np.ndarray), repr(result)
                assert (result == 2).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda comm: comm.reduce_by_key(np.arange(3), np.ones(4)),
        lambda comm: comm.reduce_by_key(np.arange(3), np.ones(3), op="median"),
        lambda comm: comm.reduce_by_key(np.arange(3), np.ones(3), root=4),
        lambda comm: comm.allreduce_sparse(np.array([10]), np.ones(1), 10),
        lambda comm: comm.allreduce_sparse(np.array([0.5]), np.ones(1), 10),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(cluster_of, call):
    cluster = cluster_of("inc")
    assert all(isinstance(result, CollectiveError) for result in cluster.run(call))
    assert all((r == 4).all() for r in cluster.run(lambda comm: comm.allreduce(np.ones(3))))
