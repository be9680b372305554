"""Nodes with next to no room: slower, never stuck."""

from __future__ import annotations

import numpy as np
import pytest

import innet
from innet.collectives import Communicator
from innet.settings import Settings
from innet.topology import load_topology


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
