"""The same programs, nodes and plans in virtual time."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import numpy as np
import pytest

import innet
from innet.collectives import Communicator
from innet.errors import CollectiveError, DeadlineExceeded, SimulationError
from innet.plans import evaluate_allreduce
from innet.settings import Settings, SettingsError
from innet.topology import load_topology

ALGORITHMS = ("inc", "ring", "ps", "halving-doubling", "auto")


def star(hosts: int) -> innet.Topology:
    return load_topology(f"star:{hosts}").with_overrides(rate_bps=1e9)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sums_equal_the_expression_of_their_plan_to_the_bit(algorithm: str) -> None:
    random = np.random.default_rng(5)
    inputs = random.normal(size=(4, 30_001)).astype(np.float32)

    async def program(comm: Communicator) -> np.ndarray:
        return await comm.iallreduce(inputs[comm.rank])

    with innet.Simulation(star(4)) as sim:
        group = sim.group(algorithm=algorithm)
        results = sim.run(*(program(comm) for comm in group))
        plan = group[0].plan_for(inputs[0].nbytes)
        expected = evaluate_allreduce(plan, list(inputs), "sum", group[0].segment_bytes // 4)
    for result in results:
        assert result.tobytes() == expected.tobytes()


def test_links_with_neither_rate_nor_delay_are_as_in_innet_sim() -> None:
    async def program(comm: Communicator) -> None:
        await comm.iallreduce(np.ones(1 << 16, np.float32))

    def ended_s(topology: innet.Topology) -> float:
        with innet.Simulation(topology) as sim:
            sim.run(*(program(comm) for comm in sim.group(algorithm="inc")))
            return sim.now_s

    untimed = load_topology("star:3")
    assert ended_s(untimed) == ended_s(untimed.with_overrides(rate_bps=10e9, delay_s=1e-6))
    assert ended_s(untimed) > (4 << 16) * 8 / 10e9


def test_an_in_network_sum_takes_little_more_than_its_bound() -> None:
    size_bytes = 8 << 20

    async def program(comm: Communicator) -> float:
        await comm.iallreduce(np.ones(size_bytes // 4, np.float32))
        return sim.now_s

    with innet.Simulation(star(8)) as sim:
        ends_s = sim.run(*(program(comm) for comm in sim.group(algorithm="inc")))
    bound_s = size_bytes * 8 / 1e9
    assert bound_s < max(ends_s) < 1.1 * bound_s


def test_a_slow_network_gets_more_time_than_the_usual_timeout() -> None:
    """The deadline follows from the rate of the links and the bytes."""
    slow = load_topology("star:2").with_overrides(rate_bps=1e6)
    contribution = np.ones(10 << 20, np.float32)

    async def program(comm: Communicator) -> np.ndarray:
        return await comm.iallreduce(contribution)

    with innet.Simulation(slow) as sim:
        results = sim.run(*(program(comm) for comm in sim.group(algorithm="inc")))
        assert sim.now_s > sim.settings.collectives.usual_timeout_s
    for result in results:
        assert (result == 2).all()


def test_a_rank_that_computes_for_a_minute_fails_nothing() -> None:
    async def program(comm: Communicator) -> float:
        await asyncio.sleep(120.0 if comm.rank == 0 else 0.0)
        return float((await comm.iallreduce(np.ones(1)))[0])

    with innet.Simulation(star(3)) as sim:
        assert sim.run(*(program(comm) for comm in sim.group())) == [3.0, 3.0, 3.0]


def test_sleeping_takes_virtual_time_only() -> None:
    async def program() -> float:
        await asyncio.sleep(3600.0)
        return sim.now_s

    with innet.Simulation(star(2)) as sim:
        assert sim.run(program()) == [pytest.approx(3600.0, abs=1e-6)]


DIGEST_PROGRAM = """
import innet, numpy as np
from innet.settings import Settings, SettingsError
from innet.topology import load_topology

async def program(comm):
    for _ in range(3):
        await comm.iallreduce(np.ones(50_000, np.float32))

topology = load_topology("star:4").with_overrides(rate_bps=1e8, loss=0.02)
with innet.Simulation(topology, seed={seed}) as sim:
    sim.run(*(program(comm) for comm in sim.group(algorithm="inc")))
    print(sim.counters()["digest"], sim.counters()["packets"], sim.now_s)
"""


def digest(seed: int) -> str:
    program = DIGEST_PROGRAM.format(seed=seed)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def test_a_seed_decides_everything() -> None:
    # Processes of their own: name hashes, addresses and the like differ between them.
    first = digest(3)
    assert digest(3) == first
    assert digest(4) != first


def test_a_blocking_call_is_refused_with_the_awaitable_form() -> None:
    async def program(comm: Communicator) -> None:
        comm.allreduce(np.ones(4, np.float32))

    with innet.Simulation(star(2)) as sim, pytest.raises(SimulationError, match="await"):
        sim.run(program(sim.group()[0]))


def test_a_deadlock_is_reported() -> None:
    async def program() -> None:
        await asyncio.get_running_loop().create_future()

    with innet.Simulation(star(2)) as sim, pytest.raises(SimulationError, match="nothing is left"):
        sim.run(program())


def test_an_absent_rank_is_named_at_the_deadline() -> None:
    async def program(comm: Communicator) -> None:
        if comm.rank != 2:
            await comm.iallreduce(np.ones(4, np.float32))

    with innet.Simulation(star(3)) as sim, pytest.raises(DeadlineExceeded, match="rank 2"):
        sim.run(*(program(comm) for comm in sim.group(algorithm="inc", timeout_s=5.0)))
    assert sim.now_s == pytest.approx(5.0, abs=0.1)


def test_the_simulation_continues_without_a_dead_switch() -> None:
    topology = load_topology("leaf-spine:2x2x4").with_overrides(rate_bps=1e9)
    switch = next(name for name in topology.switches if name.startswith("spine"))

    async def program(comm: Communicator) -> list[float]:
        sums = []
        for step in range(20):
            total = await comm.iallreduce(np.full(20_000, step, np.float32))
            sums.append(float(total[-1]))
        return sums

    with innet.Simulation(topology) as sim:
        group = sim.group(algorithm="inc", timeout_s=10.0)
        sim.at(0.003, sim.crash, switch)
        sim.at(0.5, sim.restart, switch)
        results = sim.run(*(program(comm) for comm in group))
    assert results == [[step * 8.0 for step in range(20)]] * 8


def test_operations_of_a_crashed_host_end() -> None:
    async def program(comm: Communicator) -> None:
        await comm.iallreduce(np.ones(1 << 20, np.float32))

    with innet.Simulation(star(2)) as sim:
        sim.at(0.001, sim.crash, "h1")
        with pytest.raises(CollectiveError, match="h1 crashed"):
            sim.run(*(program(comm) for comm in sim.group(algorithm="inc")))


def test_unknown_nodes_and_hosts_are_refused_by_name() -> None:
    with innet.Simulation(star(2)) as sim:
        with pytest.raises(SimulationError, match="no node 's9'"):
            sim.crash("s9")
        with pytest.raises(SimulationError, match="'h7' is not a host"):
            sim.group(["h0", "h7"])
        with pytest.raises(SimulationError, match="has not crashed"):
            sim.restart("s0")


def test_a_restarted_forwarding_node_has_its_routes_again() -> None:
    topology = load_topology("leaf-spine:2x1x1").with_overrides(rate_bps=1e9)

    async def program(comm: Communicator) -> float:
        return float((await comm.iallreduce(np.ones(4, np.float32)))[0])

    with innet.Simulation(topology) as sim:
        # The server is a host: no switch has a rule, and all of them must know the ways.
        group = sim.group(algorithm="ps", timeout_s=5.0)
        for switch in topology.switches:
            sim.crash(switch)
            sim.restart(switch)
        assert sim.run(*(program(comm) for comm in group)) == [2.0, 2.0]


def test_the_state_of_a_group_is_dropped_when_all_ranks_left() -> None:
    async def program(comm: Communicator) -> None:
        await comm.iallreduce(np.ones(100_000, np.float32))
        comm.close()

    with innet.Simulation(star(2)) as sim:
        sim.run(*(program(comm) for comm in sim.group(algorithm="inc")))
        for node in sim.network.nodes.values():
            status = node.status()
            assert status["endpoint"]["retained_bytes"] == 0
            assert status["rules"] == []


def test_settings_that_would_lose_all_answers_are_refused() -> None:
    with pytest.raises(SettingsError, match="at least twice"):
        Settings().with_assignments(["transport.interest_lifetime_s=0.5"])
    with pytest.raises(SettingsError, match="host_slots"):
        Settings().with_assignments(["collectives.host_slots=1"])
