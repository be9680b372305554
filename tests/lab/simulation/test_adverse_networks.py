"""Collectives over small tables, several lossy hops, and a link that goes down."""

from __future__ import annotations

import numpy as np
import pytest

import innet
from innet.collectives import Communicator
from innet.errors import CollectiveError
from innet.settings import Settings
from innet.topology import load_topology
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


@pytest.mark.parametrize("algorithm", ["ps", "inc", "ring"])
def test_pending_requests_for_sums_leave_room_for_operand_requests(algorithm: str) -> None:
    settings = Settings().with_assignments(
        ["transport.pit_capacity=1024", "transport.initial_window=512"]
    )

    async def program(comm: Communicator) -> float:
        total = await comm.iallreduce(np.ones(600_000, np.float32))
        return float(total.min())

    topology = load_topology("star:6").with_overrides(rate_bps=1e9, mtu_bytes=1500)
    with innet.Simulation(topology, settings=settings, audit_interval=64) as sim:
        group = sim.group(algorithm=algorithm, timeout_s=30.0)
        assert sim.run(*(program(comm) for comm in group)) == [6.0] * 6


TIMEOUT_S = 10.0


async def ends_at_the_deadline(comm: Communicator) -> bool:
    keys = np.arange(1000) * (comm.rank + 1)
    try:
        await comm.ireduce_by_key(keys, np.ones_like(keys))
    except CollectiveError:
        return True
    return False


def test_the_second_step_of_a_collective_has_the_remaining_time() -> None:
    topology = load_topology("star:2").with_overrides(delay_s=0.5)
    with innet.Simulation(topology) as sim:
        group = sim.group(algorithm="inc", timeout_s=TIMEOUT_S)
        sim.at(1.5, sim.set_link_up, "h1", "s0", False)
        assert sim.run(*(ends_at_the_deadline(comm) for comm in group)) == [True, True]
        assert TIMEOUT_S <= sim.now_s < TIMEOUT_S + 0.01
