"""Faults of nodes and links in virtual time, as users see them."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import innet
from innet.collectives import Communicator
from innet.errors import RankFailed, SimulationError, TopologyError
from innet.node.node_config import Mode
from innet.topology import load_topology

SIZE_BYTES = 1 << 20
RATE_BPS = 1e9
BOUND_S = SIZE_BYTES * 8 / RATE_BPS


def star(hosts: int) -> innet.Topology:
    return load_topology(f"star:{hosts}").with_overrides(rate_bps=RATE_BPS)


async def one_sum(comm: Communicator) -> float:
    """The number in the middle of a sum of ones."""
    total = await comm.iallreduce(np.ones(SIZE_BYTES // 4, np.float32))
    return float(total[len(total) // 2])


def run_sum(sim: innet.Simulation, group: list[Communicator] | None = None) -> float:
    """The seconds that a sum takes, which is right."""
    group = group or sim.group(algorithm="inc")
    began_s = sim.now_s
    assert sim.run(*(one_sum(comm) for comm in group)) == [float(len(group))] * len(group)
    return sim.now_s - began_s


def test_a_slower_link_makes_a_sum_take_longer() -> None:
    with innet.Simulation(star(3)) as sim:
        sim.change_link("h1", "s0", rate_bps=RATE_BPS / 10)
        assert 10 * BOUND_S < run_sum(sim) < 12 * BOUND_S


def test_a_healed_link_is_as_fast_as_before() -> None:
    with innet.Simulation(star(3)) as sim:
        group = sim.group(algorithm="inc")
        sim.change_link("h1", "s0", rate_bps=RATE_BPS / 10, delay_s=0.01)
        run_sum(sim, group)
        sim.change_link("h1", "s0", rate_bps=RATE_BPS, delay_s=0.0)
        run_sum(sim, group)
        assert run_sum(sim, group) < 1.2 * BOUND_S


def test_links_modelled_on_the_kernel_pass_a_burst_and_mark_nothing() -> None:
    topology = load_topology("star:2").with_overrides(rate_bps=10e6, queue_bytes=64 << 10)

    def small_sum_s(like: Mode) -> float:
        with innet.Simulation(topology, like=like) as sim:
            sim.run(*(small_sum(comm) for comm in sim.group(algorithm="inc")))
            return sim.now_s

    async def small_sum(comm: Communicator) -> None:
        await comm.iallreduce(np.ones(2000, np.float32))

    assert small_sum_s("netns") < 0.001 < 0.0064 < small_sum_s("local")


def test_a_sum_waits_for_a_link_to_come_up_again() -> None:
    with innet.Simulation(star(3)) as sim:
        sim.at(0.003, sim.set_link_up, "h1", "s0", False)
        sim.at(0.4, sim.set_link_up, "h1", "s0", True)
        assert 0.4 < run_sum(sim) < 2.0


def test_a_rail_that_dies_costs_its_share_of_the_rate() -> None:
    topology = load_topology("rails:4x2").with_overrides(rate_bps=RATE_BPS)
    with innet.Simulation(topology) as sim:
        group = sim.group(algorithm="inc")
        run_sum(sim, group)
        assert BOUND_S / 2 < run_sum(sim, group) < 0.6 * BOUND_S
        sim.at(sim.now_s + BOUND_S / 4, sim.crash, "r1")
        run_sum(sim, group)
        assert BOUND_S < run_sum(sim, group) < 1.2 * BOUND_S
        sim.restart("r1")
        sim.run(asyncio.sleep(2))
        run_sum(sim, group)  # tells the ranks
        assert BOUND_S / 2 < run_sum(sim, group) < 0.6 * BOUND_S


def test_a_sum_waits_for_a_paused_switch() -> None:
    with innet.Simulation(star(3)) as sim:
        sim.at(0.003, sim.pause, "s0")
        sim.at(0.3, sim.resume, "s0")
        assert 0.3 < run_sum(sim) < 1.0


def test_a_clock_that_jumps_changes_no_result() -> None:
    with innet.Simulation(star(3)) as sim:
        sim.at(0.003, sim.advance_clock, "s0", 3600.0)
        sim.at(0.004, sim.advance_clock, "h1", 5.0)
        assert run_sum(sim) < 5.0


def test_impossible_faults_are_refused_by_name() -> None:
    with innet.Simulation(star(2)) as sim:
        with pytest.raises(SimulationError, match="no link from h0 to h1"):
            sim.set_link_up("h0", "h1", False)
        with pytest.raises(SimulationError, match="no node 's7'"):
            sim.pause("s7")
        with pytest.raises(SimulationError, match="clock of h0 cannot go back"):
            sim.advance_clock("h0", -1.0)
        with pytest.raises(TopologyError, match="loss"):
            sim.change_link("h0", "s0", loss=2.0)


def test_ranks_that_learn_of_a_dead_worker_continue_without_it() -> None:
    with innet.Simulation(star(3)) as sim:
        sim.at(0.001, sim.crash, "h1")
        sim.at(0.002, sim.fail_worker, "h1", "was killed by signal 9 (SIGKILL)")

        async def told(comm: Communicator) -> tuple[int | None, float]:
            with pytest.raises(RankFailed, match=r"rank 1 \(h1\) was killed by signal 9") as first:
                await one_sum(comm)
            heard_s = sim.now_s
            with pytest.raises(RankFailed, match=r"rank 1 \(h1\) was killed by signal 9"):
                await one_sum(comm)
            return first.value.rank, heard_s

        first, _, last = sim.group(algorithm="inc")
        assert sim.run(told(first), told(last)) == [(1, 0.002)] * 2
        run_sum(sim, sim.group(("h0", "h2"), algorithm="inc", name="survivors"))
        with pytest.raises(SimulationError, match="'h7' is not a host"):
            sim.fail_worker("h7")


def test_a_group_formed_without_a_lost_switch_uses_it_after_its_return() -> None:
    with innet.Simulation(star(3)) as sim:
        sim.crash("s0")
        group = sim.group(algorithm="inc")
        sim.at(0.1, sim.restart, "s0")
        assert run_sum(sim, group) > 0.1
        assert run_sum(sim, group) < 1.2 * BOUND_S
        sim.crash("h1")
        with pytest.raises(SimulationError, match=r"h1 has crashed.*sim\.restart\('h1'\)"):
            sim.group(name="with the dead")
