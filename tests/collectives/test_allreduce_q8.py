"""Sums in 8 bits an element: the value that their name defines, to the bit, whoever computes it."""

from __future__ import annotations

import numpy as np
import pytest

from innet.errors import CollectiveError
from innet.plans import Interval, Plan
from innet.topology import load_topology
from tests.collectives.cluster import Cluster
from tests.plans import block_scaled

SEGMENT_BYTES = 1024
BLOCKS_PER_SEGMENT = SEGMENT_BYTES // block_scaled.BLOCK_BYTES
ELEMENTS = 10_007


def contribution(rank):
    random = np.random.default_rng(rank)
    values = random.standard_normal(ELEMENTS) * 10.0 ** random.integers(-3, 4, ELEMENTS)
    values[5000] = np.nan if rank == 1 else 1
    return values.astype(np.float32)


def expected(plan: Plan, contributions):
    """The plan's expression, segment by segment, by the reference."""
    encoded = [block_scaled.encode(array) for array in contributions]
    size = BLOCKS_PER_SEGMENT * block_scaled.BLOCK_BYTES

    def value(interval: Interval, part: slice):
        if interval.is_single:
            return encoded[interval.first][part]
        return block_scaled.sum_operands([value(o, part) for o in plan.expression(interval)])

    segments = [
        value(plan.root_for(number).interval, slice(start, start + size))
        for number, start in enumerate(range(0, encoded[0].size, size))
    ]
    return block_scaled.decode(np.concatenate(segments), ELEMENTS)


@pytest.mark.parametrize("algorithm", ["inc", "ring", "halving-doubling"])
def test_the_result_is_the_expression_to_the_bit(algorithm):
    with Cluster(load_topology("star:4"), algorithm, segment_bytes=SEGMENT_BYTES) as cluster:
        results = cluster.run(lambda comm: comm.allreduce_q8(contribution(comm.rank)))
        wanted = expected(cluster.plan, [contribution(rank) for rank in range(4)])
    assert np.isnan(wanted[5000])
    for result in results:
        assert result.tobytes() == wanted.tobytes()


def test_the_encoding_error_is_returned_and_the_input_is_unchanged():
    with Cluster(load_topology("star:3")) as cluster:

        def program(comm):
            array, lost = contribution(0), np.empty(ELEMENTS, np.float32)
            comm.allreduce_q8(array, lost=lost)
            in_place = array.reshape(1, -1).copy()
            comm.allreduce_q8(in_place, out=in_place)
            return array, lost, in_place

        results = cluster.run(program)
    array = contribution(0)
    decoded = block_scaled.decode(block_scaled.encode(array), ELEMENTS)
    for kept, lost, in_place in results:
        assert kept.tobytes() == array.tobytes()
        np.testing.assert_array_equal(lost, array - decoded)
        np.testing.assert_allclose(in_place[0], 3 * decoded, atol=np.abs(array).max() / 20)


def test_empty_and_wrong_arrays():
    with Cluster(load_topology("star:3")) as cluster:
        results = cluster.run(lambda comm: comm.allreduce_q8(np.zeros((0, 3), np.float32)))
        assert all(result.shape == (0, 3) for result in results)
        for call in (
            lambda comm: comm.allreduce_q8(np.zeros(3)),
            lambda comm: comm.allreduce_q8(np.zeros(3, np.float32), lost=np.zeros(3)),
            lambda comm: comm.allreduce_q8(np.zeros(3, np.float32), out=np.zeros(3)),
        ):
            assert all(isinstance(error, CollectiveError) for error in cluster.run(call))
