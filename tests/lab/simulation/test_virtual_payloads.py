"""Arrays whose bytes stand for more."""

from __future__ import annotations

import numpy as np
import pytest

import innet
from innet.collectives import Communicator
from innet.errors import SimulationError
from innet.topology import load_topology


def time_s(size_bytes: int, virtual_scale: int) -> float:
    topology = load_topology("star:4").with_overrides(
        rate_bps=1e9, mtu_bytes=65000, queue_bytes=16 << 20
    )

    async def program(comm: Communicator) -> float:
        array = sim.array(size_bytes) + np.float32(1)
        total = await comm.iallreduce(array)
        assert (total == 4).all()
        return sim.now_s

    with innet.Simulation(topology, virtual_scale=virtual_scale) as sim:
        return max(sim.run(*(program(comm) for comm in sim.group(algorithm="inc"))))


def test_thin_arrays_take_the_time_of_full_ones() -> None:
    # Segments of full arrays are half as large, so their pipeline is shorter.
    assert time_s(20_000_000, 1000) == pytest.approx(time_s(20_000_000, 1), rel=0.1)


def test_plans_are_chosen_by_what_arrays_stand_for() -> None:
    topology = load_topology("star:4").with_overrides(rate_bps=1e9, mtu_bytes=65000)
    with innet.Simulation(topology, virtual_scale=1000) as sim:
        comm = sim.group(algorithm="auto")[0]
        assert "64000000 bytes" in comm.explain(64_000)


def test_a_scale_that_leaves_nothing_is_refused() -> None:
    topology = load_topology("star:2")
    for scale in (0, 100_000):
        with pytest.raises(SimulationError, match=f"virtual_scale.*{scale}"):
            innet.Simulation(topology, virtual_scale=scale)
