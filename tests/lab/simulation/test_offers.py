"""Allreduces whose contributions go ahead of the requests for them, in virtual time."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import innet
from innet.collectives import Communicator
from innet.settings import Settings
from innet.topology import load_topology

DELAY_S = 0.01
"""Of each link, one way."""


BY_REQUESTERS = Settings().with_assignments(["transport.link_repetition=none"])
"""Lost packets are requested again, and not repeated on their link."""


async def small_sum(comm: Communicator) -> float:
    total = await comm.iallreduce(np.full(64, comm.rank + 1, np.float32))
    return float(total[0])


def seconds_of_sums(
    sim: innet.Simulation, group: list[Communicator], count: int = 1
) -> list[float]:
    """Seconds of each of ``count`` sums, whose results are checked."""
    times_s = []
    for _ in range(count):
        began_s = sim.now_s
        want = len(group) * (len(group) + 1) / 2
        assert sim.run(*(small_sum(comm) for comm in group)) == [want] * len(group)
        times_s.append(sim.now_s - began_s)
    return times_s


def test_a_small_sum_takes_one_round_trip_to_the_switch() -> None:
    with innet.Simulation(load_topology("star:4").with_overrides(delay_s=DELAY_S)) as sim:
        times_s = seconds_of_sums(sim, sim.group(algorithm="inc"), 3)
    assert times_s == pytest.approx([2 * DELAY_S] * 3, rel=0.01)


@pytest.mark.parametrize(
    ("name", "links", "packets"),
    # A contribution, its request and the result on each link of a host, likewise of each switch.
    [("leaf-spine:2x1x2", 2, 3 * 6), ("leaf-spine:4x2x4", 2, 3 * 20), ("fat-tree:4", 3, 3 * 28)],
)
def test_a_small_sum_of_several_levels_takes_one_round_trip_to_the_root(
    name: str, links: int, packets: int
) -> None:
    topology = load_topology(name).with_overrides(delay_s=DELAY_S)
    with innet.Simulation(topology) as sim:
        group = sim.group(algorithm="inc")
        times_s = seconds_of_sums(sim, group, 3)
        before = sim.counters()["packets"]
        times_s += seconds_of_sums(sim, group)
        assert sim.counters()["packets"] - before == packets
    assert times_s == pytest.approx([2 * links * DELAY_S] * 4, rel=0.01)


def test_sums_of_several_levels_need_no_more_packets_when_ranks_call_at_different_times() -> None:
    topology = load_topology("leaf-spine:2x1x2").with_overrides(delay_s=0.0001)

    async def late_sum(comm: Communicator) -> float:
        await asyncio.sleep(0.00002 * comm.rank)
        return await small_sum(comm)

    with innet.Simulation(topology) as sim:
        group = sim.group(algorithm="inc")
        packets = []
        for _ in range(10):
            before, began_s = sim.counters()["packets"], sim.now_s
            assert sim.run(*(late_sum(comm) for comm in group)) == [10.0] * 4
            packets.append(sim.counters()["packets"] - before)
            assert sim.now_s - began_s == pytest.approx(0.00006 + 0.0004, rel=0.01)
        assert packets[-5:] == [18] * 5, packets


def test_a_late_rank_below_a_leaf_delays_a_sum_only_by_its_lateness() -> None:
    topology = load_topology("leaf-spine:2x1x2").with_overrides(delay_s=0.0001)

    async def late_sum(comm: Communicator) -> float:
        await asyncio.sleep(0.1 if comm.rank == 2 else 0)
        return await small_sum(comm)

    with innet.Simulation(topology) as sim:
        group = sim.group(algorithm="inc")
        for _ in range(5):
            began_s = sim.now_s
            assert sim.run(*(late_sum(comm) for comm in group)) == [10.0] * 4
            assert sim.now_s - began_s == pytest.approx(0.1 + 0.0004, rel=0.01)


def test_alternating_small_and_large_sums_do_not_wait_for_each_other() -> None:
    topology = load_topology("leaf-spine:2x1x2").with_overrides(delay_s=0.0001)

    async def large_sum(comm: Communicator) -> float:
        return float((await comm.iallreduce(np.full(30_000, 1, np.float32)))[-1])

    with innet.Simulation(topology) as sim:
        group = sim.group(algorithm="inc")
        large_s = []
        for _ in range(5):
            began_s = sim.now_s
            assert sim.run(*(large_sum(comm) for comm in group)) == [4.0] * 4
            large_s.append(sim.now_s - began_s)
            assert seconds_of_sums(sim, group) == pytest.approx([0.0004], rel=0.01)
    assert large_s[2:] == pytest.approx([0.0004] * 3, rel=0.01)


def test_a_lost_contribution_is_requested() -> None:
    topology = load_topology("star:4").with_overrides(delay_s=0.001, loss=0.2)
    with innet.Simulation(topology, seed=3, settings=BY_REQUESTERS) as sim:
        times_s = seconds_of_sums(sim, sim.group(algorithm="inc"), 30)
    assert min(times_s) == pytest.approx(0.002, rel=0.01)


async def large_sum(comm: Communicator) -> bool:
    total = await comm.iallreduce(np.full(1 << 18, comm.rank + 1, np.float32))
    return bool((total == comm.size * (comm.size + 1) / 2).all())


@pytest.mark.parametrize("loss", [0.0, 0.02])
def test_lost_contributions_of_a_large_sum_are_requested(loss: float) -> None:
    topology = load_topology("star:4").with_overrides(rate_bps=1e9, loss=loss)
    with innet.Simulation(topology, seed=5, settings=BY_REQUESTERS) as sim:
        group = sim.group(algorithm="inc")
        assert sim.run(*map(large_sum, group)) == [True] * 4
        to_host = sim.network.link_counters()["s0", "h0"]["sent"]
        sums = -(-(1 << 20) // group[0].segment_bytes_of(1 << 20))
    # Each sum once; with losses, some of them again, and some requests.
    assert sums <= to_host <= (1 + 5 * loss) * sums


def test_a_lost_sum_of_a_leaf_is_requested() -> None:
    topology = load_topology("leaf-spine:2x1x2").with_overrides(delay_s=0.001, loss=0.1)
    with innet.Simulation(topology, seed=3, settings=BY_REQUESTERS) as sim:
        times_s = seconds_of_sums(sim, sim.group(algorithm="inc"), 60)
    assert min(times_s) == pytest.approx(0.004, rel=0.01)


def bursts_s(sim: innet.Simulation, group: list[Communicator], count: int) -> float:
    """What the last of some bursts takes: of eight sums of 7,600 bytes, under way at once."""

    async def burst(comm: Communicator) -> None:
        arrays = [np.ones(1900, np.float32) for _ in range(8)]
        for work in [comm.iallreduce(array) for array in arrays]:
            await work

    for _ in range(count):
        began_s = sim.now_s
        sim.run(*(burst(comm) for comm in group))
    return sim.now_s - began_s


def test_a_slow_link_carries_each_contribution_once() -> None:
    topology = load_topology("star:4").with_overrides(rate_bps=100e6)
    with innet.Simulation(topology) as sim:
        sim.change_link("h1", "s0", rate_bps=10e6)
        took_s = bursts_s(sim, sim.group(algorithm="inc"), 60)
    # Eight contributions one after the other, and the last sum on its way back.
    assert took_s < 1.05 * 9 * 7600 * 8 / 10e6


def test_a_rank_that_never_sends_ahead_costs_one_wait() -> None:
    with innet.Simulation(load_topology("star:4").with_overrides(delay_s=0.0001)) as sim:
        group = sim.group(algorithm="inc")
        for variant in group[2]._variants.all:
            variant.goes_ahead = False
        times_s = seconds_of_sums(sim, group, 5)
    assert times_s[0] < 0.0025  # two round trips, and two milliseconds
    assert max(times_s[1:]) < 0.0005
