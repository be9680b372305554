"""Allreduces whose contributions go ahead of the requests for them, in virtual time."""

from __future__ import annotations

import numpy as np
import pytest

import innet
from innet.collectives import Communicator
from innet.topology import load_topology

DELAY_S = 0.01
"""Of each link, one way."""


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


def test_a_small_sum_of_leaves_asks_no_host() -> None:
    topology = load_topology("leaf-spine:2x1x2").with_overrides(delay_s=DELAY_S)
    with innet.Simulation(topology) as sim:
        group = sim.group(algorithm="inc")
        first_s, *later_s = seconds_of_sums(sim, group, 3)
        # From the hosts to the spine, to the leaves, and back to the spine and the hosts.
        assert later_s == pytest.approx([6 * DELAY_S] * 2, rel=0.1), first_s


def test_a_contribution_that_is_lost_is_asked_for() -> None:
    topology = load_topology("star:4").with_overrides(delay_s=0.001, loss=0.2)
    with innet.Simulation(topology, seed=3) as sim:
        times_s = seconds_of_sums(sim, sim.group(algorithm="inc"), 30)
    assert min(times_s) == pytest.approx(0.002, rel=0.01)


async def large_sum(comm: Communicator) -> bool:
    total = await comm.iallreduce(np.full(1 << 18, comm.rank + 1, np.float32))
    return bool((total == comm.size * (comm.size + 1) / 2).all())


@pytest.mark.parametrize("loss", [0.0, 0.02])
def test_contributions_of_a_large_sum_are_asked_for_where_they_are_lost(loss: float) -> None:
    topology = load_topology("star:4").with_overrides(rate_bps=1e9, loss=loss)
    with innet.Simulation(topology, seed=5) as sim:
        group = sim.group(algorithm="inc")
        assert sim.run(*map(large_sum, group)) == [True] * 4
        to_host = sim.network.link_counters()["s0", "h0"]["sent"]
        sums = -(-(1 << 20) // group[0].segment_bytes_of(1 << 20))
    # Each sum once; with losses, some of them again, and some requests.
    assert sums <= to_host <= (1 + 5 * loss) * sums


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


def test_a_rank_that_never_sends_ahead_costs_the_others_one_wait() -> None:
    with innet.Simulation(load_topology("star:4").with_overrides(delay_s=0.0001)) as sim:
        group = sim.group(algorithm="inc")
        for variant in group[2]._variants.all:
            variant.is_added_by_switch = False
        times_s = seconds_of_sums(sim, group, 5)
    assert times_s[0] < 0.0025  # two round trips, and two milliseconds
    assert max(times_s[1:]) < 0.0005
