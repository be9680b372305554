"""Deadlines count in virtual time, for every step of an operation."""

from __future__ import annotations

import numpy as np

import innet
from innet.collectives import Communicator
from innet.errors import CollectiveError
from innet.topology import load_topology

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
