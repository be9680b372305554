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


def test_virtual_arrays_take_the_time_of_real_ones() -> None:
    # Segments of full arrays are half as large, so their pipeline is shorter.
    assert time_s(20_000_000, 1000) == pytest.approx(time_s(20_000_000, 1), rel=0.1)


@pytest.mark.parametrize("algorithm", ["inc", "ring", "halving-doubling", "ps"])
def test_the_scale_does_not_change_the_time_of_a_method(algorithm: str) -> None:
    topology = load_topology("leaf-spine:2x2x4").with_overrides(rate_bps=100e9, delay_s=1e-6)
    took_s = []
    for virtual_scale in (1, 16):
        with innet.Simulation(topology, virtual_scale=virtual_scale) as sim:

            async def program(comm: Communicator, sim: innet.Simulation = sim) -> None:
                await comm.iallreduce(sim.array(1 << 20))

            sim.run(*map(program, sim.group(algorithm=algorithm)))
            took_s.append(sim.now_s)
    assert took_s[1] == pytest.approx(took_s[0], rel=0.005)


def test_plans_are_chosen_by_the_real_size() -> None:
    topology = load_topology("star:4").with_overrides(rate_bps=1e9, mtu_bytes=65000)
    with innet.Simulation(topology, virtual_scale=1000) as sim:
        comm = sim.group(algorithm="auto")[0]
        assert "64000000 bytes" in comm.explain(64_000)


def test_a_scale_that_leaves_no_element_is_refused() -> None:
    topology = load_topology("star:2")
    for scale in (0, 100_000):
        with pytest.raises(SimulationError, match=f"virtual_scale.*{scale}"):
            innet.Simulation(topology, virtual_scale=scale)
