"""A sum over sums, over several hops that each lose much."""

from __future__ import annotations

import numpy as np

import innet
from innet.collectives import Communicator
from innet.settings import Settings
from tests.swarm.network import network_of
from tests.swarm.scenario import LinkModel, Scenario

LOSSY = LinkModel(rate_bps=1e8, mtu_bytes=1500, loss=0.3, jitter_s=1e-3)
PATIENT = ("transport.interest_lifetime_s=4", "transport.max_rto_s=2")


def test_six_packets_of_cache_keep_a_finished_sum_from_being_made_again() -> None:
    network = network_of(Scenario(1, "random:4x3x0x772", LOSSY, groups=(), cache_bytes=9_000))
    with innet.Simulation(network, settings=Settings().with_assignments(PATIENT)) as sim:

        async def total(comm: Communicator) -> float:
            result = await comm.iallreduce(np.ones(2000, np.float32))
            return float(result[1234])

        # Without any cache it takes about an hour.
        ring = sim.group(algorithm="ring", timeout_s=300.0)
        assert sim.run(*(total(comm) for comm in ring)) == [4.0] * 4
