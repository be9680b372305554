"""Sums over links that lose, reorder and duplicate packets, and what links without loss carry."""

from __future__ import annotations

import asyncio
import statistics
from pathlib import Path

import numpy as np
import pytest

import innet
from innet.settings import Settings
from innet.topology import Topology, load_topology

IRREGULAR = """
name: irregular
topology:
  nodes:
    s0: {kind: switch}
    s1: {kind: switch}
    s2: {kind: switch}
    h0: {kind: host}
    h1: {kind: host}
    h2: {kind: host}
    h3: {kind: host}
  links:
    - {endpoints: ["h0:e0", "s0:e0"], rate: 200mbit, delay: 1ms}
    - {endpoints: ["h1:e0", "s0:e1"], rate: 100mbit, delay: 2ms}
    - {endpoints: ["h2:e0", "s1:e0"], rate: 500mbit, delay: 0.2ms}
    - {endpoints: ["h3:e0", "s2:e0"], rate: 100mbit, delay: 3ms}
    - {endpoints: ["s0:e2", "s1:e1"], rate: 200mbit, delay: 2ms}
    - {endpoints: ["s1:e2", "s2:e1"], rate: 200mbit, delay: 1ms}
"""
ALGORITHMS = ["ring", "halving-doubling", "inc"]
SEEDS = range(1, 7)
SHORTEST_RTO_S = 0.05


@pytest.fixture
def irregular(tmp_path: Path) -> Topology:
    path = tmp_path / "irregular.yaml"
    path.write_text(IRREGULAR)
    return load_topology(str(path))


def impaired(topology: Topology, loss: float) -> Topology:
    return topology.with_overrides(
        loss=loss, jitter_s=1e-3, reorder=0.05, reorder_delay_s=5e-3, duplicate=0.05
    )


def seconds(
    topology: Topology, algorithm: str, *, kib: int, seed: int = 1, operations: int = 2
) -> list[float]:
    """Virtual time of each of some sums, on the rank that was last."""
    with innet.Simulation(topology, seed=seed) as simulation:
        communicators = simulation.group(algorithm=algorithm)

        async def program(comm: innet.Communicator) -> list[float]:
            found = []
            for _ in range(operations):
                began_s = simulation.now_s
                total = await comm.iallreduce(np.ones(256 * kib, np.float32))
                assert (total == comm.size).all()
                found.append(simulation.now_s - began_s)
            return found

        of_ranks = simulation.run(*(program(comm) for comm in communicators))
        return [max(times) for times in zip(*of_ranks, strict=True)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kib", [64, 256])
def test_a_lossy_network_costs_round_trips_of_links_and_no_timeouts_of_sums(
    irregular: Topology, algorithm: str, kib: int
) -> None:
    clean_s = statistics.median(seconds(irregular, algorithm, kib=kib))
    lossy = impaired(irregular, 0.05)
    times = [time for seed in SEEDS for time in seconds(lossy, algorithm, kib=kib, seed=seed)]
    assert statistics.median(times) < 3 * clean_s + SHORTEST_RTO_S, times
    assert max(times) < 3 * clean_s + 3 * SHORTEST_RTO_S, times


@pytest.mark.parametrize("network", ["star:8", "fat-tree:4"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_small_sums_over_many_lossy_links_take_a_few_timeouts(network, algorithm) -> None:
    topology = load_topology(network).with_overrides(rate_bps=200e6, delay_s=5e-4)
    clean_s = statistics.median(seconds(topology, algorithm, kib=4))
    lossy = impaired(topology, 0.05)
    times = [time for seed in SEEDS for time in seconds(lossy, algorithm, kib=4, seed=seed)]
    assert statistics.median(times) < 3 * clean_s + 3 * SHORTEST_RTO_S, times
    assert max(times) < 3 * clean_s + 8 * SHORTEST_RTO_S, times


def exchange(topology: Topology, repetition: str, *, late_s: float) -> dict[str, int]:
    """The counters of a run in which one rank calls late."""
    settings = Settings().with_assignments([f"transport.link_repetition={repetition}"])
    with innet.Simulation(topology, settings=settings) as simulation:

        async def program(comm: innet.Communicator) -> None:
            if comm.rank == 1:
                await asyncio.sleep(late_s)
            await comm.iallreduce(np.ones(65536, np.float32))

        simulation.run(*(program(comm) for comm in simulation.group(algorithm="ring")))
        return simulation.counters()


@pytest.mark.parametrize("network", ["star:8", "fat-tree:4"])
def test_links_without_loss_carry_the_same_packets_as_without_repetition(network: str) -> None:
    topology = load_topology(network).with_overrides(rate_bps=200e6, jitter_s=1e-4)
    runs = [exchange(topology, word, late_s=0.5) for word in ("lossy", "none")]
    assert runs[0] == runs[1]


def test_all_links_can_carry_acknowledgements() -> None:
    topology = load_topology("star:4").with_overrides(rate_bps=200e6, delay_s=5e-4)
    quiet, watched = (exchange(topology, word, late_s=0.0) for word in ("lossy", "all"))
    assert watched["packets"] > quiet["packets"]
