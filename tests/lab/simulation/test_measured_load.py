"""The controller moves sums away from background traffic, on a fat-tree in virtual time."""

from __future__ import annotations

import numpy as np

import innet
from innet.collectives import Communicator
from innet.lab.simulation.jobs import SimulatedJob
from innet.settings import PlacementSettings, Settings

HOSTS = ("h0", "h1", "h4", "h5", "h8", "h9", "h12", "h13")
STEPS = 8


def train(moves: bool) -> tuple[float, list[bytes]]:
    """Virtual time of a job of 8 ranks beside streams from one rack, and its results."""
    placement = PlacementSettings(moves=moves, interval_s=0.1, confirmations=2, pause_s=1)
    topology = innet.load_topology("fat-tree:4").with_overrides(rate_bps=1e8, delay_s=5e-6)
    with innet.Simulation(
        topology,
        settings=Settings(placement=placement),
        seed=7,
        virtual_scale=32,
        jobs=[SimulatedJob("train", HOSTS)],
        measures_load=True,
    ) as sim:
        for host in ("h2", "h3"):
            to = ("h6", "h10", "h14")
            sim.background(host, to, rate_bps=9e7, flow_bytes=2e5, at_s=0.1)

        async def steps(comm: Communicator, rank: int) -> list[bytes]:
            random = np.random.default_rng(rank)
            found = []
            for _ in range(STEPS):
                gradient = random.standard_normal(1 << 13).astype(np.float32)  # stands for 1 MiB
                found.append((await comm.iallreduce(gradient)).tobytes())
            return found

        group = sim.group(HOSTS, algorithm="inc")
        results = sim.run(*(steps(comm, rank) for rank, comm in enumerate(group)))
        assert all(result == results[0] for result in results)
        return sim.now_s, results[0]


def test_sums_move_from_a_loaded_core_with_the_same_bits_in_less_time():
    stayed_s, stayed = train(moves=False)
    moved_s, moved = train(moves=True)
    assert moved == stayed
    assert moved_s < stayed_s * 0.7, (moved_s, stayed_s)
