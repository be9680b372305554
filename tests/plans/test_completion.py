"""The bound with latency: against formulas by hand, and against the simulator."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import innet
from innet.cluster.emulation.segmentation import segment_bytes
from innet.collectives import Communicator
from innet.plans import bound_s, make_plan
from innet.plans.completion import completion_bound_s
from innet.topology import Topology, load_topology

SEGMENT_BYTES = 8000
RATE_BPS = 1e9
SENDING_S = SEGMENT_BYTES * 8 / RATE_BPS
DELAY_S = 10e-6

METHODS = ("inc", "ps", "ring", "halving-doubling")


def slow_star(hosts: int) -> Topology:
    return load_topology(f"star:{hosts}").with_overrides(rate_bps=RATE_BPS, delay_s=DELAY_S)


def test_a_sum_on_a_switch_takes_one_way_up_and_one_down() -> None:
    topology = slow_star(4)
    plan = make_plan("inc", topology)
    # A contribution goes to the switch beside the request for the sum; then come both sums.
    bound = completion_bound_s(plan, topology, 2 * SEGMENT_BYTES, SEGMENT_BYTES)
    assert bound == pytest.approx(2 * DELAY_S + 3 * SENDING_S)


def test_a_sum_of_several_levels_takes_one_way_up_and_one_down() -> None:
    topology = load_topology("fat-tree:4").with_overrides(rate_bps=RATE_BPS, delay_s=DELAY_S)
    plan = make_plan("inc", topology)
    bound = completion_bound_s(plan, topology, SEGMENT_BYTES, SEGMENT_BYTES)
    assert bound == pytest.approx(6 * DELAY_S + 6 * SENDING_S)


def test_one_segment_travels_the_ring_link_by_link() -> None:
    topology = slow_star(4)
    bound = completion_bound_s(make_plan("ring", topology), topology, SEGMENT_BYTES, SEGMENT_BYTES)
    # The root begins by itself; three steps to it and one from it, over two links each.
    assert bound == pytest.approx(3 * 4 * DELAY_S + 3 * 2 * SENDING_S + 2 * (DELAY_S + SENDING_S))


def test_sums_that_start_ahead_do_not_wait_for_requests() -> None:
    topology = slow_star(4)
    plan = make_plan("halving-doubling", topology)
    bound = completion_bound_s(plan, topology, SEGMENT_BYTES, SEGMENT_BYTES)
    # Both sums of two ranks are requested at once; three steps of a segment follow.
    assert bound == pytest.approx(2 * DELAY_S + 3 * 2 * (DELAY_S + SENDING_S))


def test_a_small_last_segment_does_not_shorten_the_time_of_the_others() -> None:
    topology = slow_star(4)
    size_bytes = SEGMENT_BYTES + 80
    bound = completion_bound_s(make_plan("inc", topology), topology, 2 * size_bytes, size_bytes)
    rest = 2 * size_bytes + 80
    with_rest = completion_bound_s(make_plan("inc", topology), topology, rest, size_bytes)
    assert with_rest >= bound


@pytest.mark.parametrize("method", METHODS)
def test_many_segments_take_the_time_of_their_bytes_and_little_latency(method: str) -> None:
    topology = slow_star(8)
    plan = make_plan(method, topology)
    size_bytes = 8000 * SEGMENT_BYTES
    bound = completion_bound_s(plan, topology, size_bytes, SEGMENT_BYTES)
    bytes_alone_s = bound_s(plan, topology, size_bytes)
    assert bytes_alone_s < bound < 1.01 * bytes_alone_s


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["star:8", "leaf-spine:2x2x4", "fat-tree:4"])
@pytest.mark.parametrize("size_bytes", [4, 64 << 10, 1 << 20])
def test_nothing_is_faster_than_its_bound(method: str, name: str, size_bytes: int) -> None:
    topology = load_topology(name).with_overrides(rate_bps=10e9, delay_s=1e-6)
    with innet.Simulation(topology) as sim:
        group = sim.group(algorithm=method)

        async def program(communicator: Communicator) -> None:
            array = sim.array(size_bytes)
            await communicator.iallreduce(array, out=array)

        sim.run(*map(program, group))
        plan = group[0].plan_for(size_bytes)
        bound = completion_bound_s(plan, topology, size_bytes, segment_bytes(topology))
        assert bound_s(plan, topology, size_bytes) <= bound <= sim.now_s


def test_a_link_without_a_rate_or_delay_costs_nothing(star: Callable[..., Topology]) -> None:
    topology = star(4).with_overrides(rate_bps=None, delay_s=0.0)
    assert completion_bound_s(make_plan("ring", topology), topology, 1 << 20, SEGMENT_BYTES) == 0
