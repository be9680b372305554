"""TCP-like streams in simulations, and baselines made of them, against what theory says."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import innet
from innet.collectives import Communicator
from innet.errors import SimulationError
from innet.lab.simulation.baselines import ParameterServer, Ring
from innet.topology import load_topology

RATE_BPS = 1e9
GOODPUT = 8960 / 9014
"""Of a link with an MTU of 9000, for segments with TCP, IP and Ethernet headers."""


def star(hosts: int, **overrides: float) -> innet.Topology:
    settings = {"rate_bps": RATE_BPS, "delay_s": 20e-6} | overrides
    return load_topology(f"star:{hosts}").with_overrides(**settings)  # type: ignore[arg-type]


def test_a_stream_fills_its_links() -> None:
    size_bytes = 100_000_000
    with innet.Simulation(star(2)) as sim:
        stream = sim.stream("h0", "h1")
        sim.run(stream.send(size_bytes))
        ideal_s = size_bytes * 8 / RATE_BPS
        assert ideal_s < sim.now_s < ideal_s / 0.95
        assert stream.status()["arrived_bytes"] == size_bytes


def test_streams_to_one_host_share_its_link() -> None:
    async def watch() -> list[float]:
        streams = [sim.stream(source, "h3") for source in ("h0", "h1", "h2")]
        for stream in streams:
            stream.write(1 << 40)
        await asyncio.sleep(5.0)
        return [stream.status()["arrived_bytes"] for stream in streams]

    with innet.Simulation(star(4)) as sim:
        (arrived_bytes,) = sim.run(watch())
    assert sum(arrived_bytes) * 8 / 5 > 0.9 * GOODPUT * RATE_BPS
    assert min(arrived_bytes) > 0.5 * max(arrived_bytes)


def test_incast_overflows_the_queue_before_the_receiver() -> None:
    with innet.Simulation(star(17, queue_bytes=64 << 10)) as sim:
        streams = [sim.stream(f"h{number}", "h16") for number in range(16)]
        sim.run(*(stream.send(1_000_000) for stream in streams))
        assert sum(stream.status()["retransmissions"] for stream in streams) > 16


@pytest.mark.parametrize("hosts", [4, 8])
def test_a_ring_takes_the_time_of_its_bytes(hosts: int) -> None:
    size_bytes = 64_000_000
    with innet.Simulation(star(hosts)) as sim:
        ring = Ring(sim)
        sim.run(ring.allreduce(size_bytes))
        first_s = sim.now_s
        sim.run(ring.allreduce(size_bytes))
        second_s = sim.now_s - first_s
    bound_s = 2 * (hosts - 1) / hosts * size_bytes * 8 / (RATE_BPS * GOODPUT)
    assert bound_s < first_s < 1.1 * bound_s
    assert bound_s < second_s < 1.1 * bound_s


def test_a_parameter_server_takes_the_time_of_its_link() -> None:
    hosts, size_bytes = 5, 32_000_000
    with innet.Simulation(star(hosts)) as sim:
        sim.run(ParameterServer(sim).allreduce(size_bytes))
        bound_s = (hosts - 1) * size_bytes * 8 / (RATE_BPS * GOODPUT)
        # Its queue overflows, and a part goes back when the slowest has sent it: incast.
        assert bound_s < sim.now_s < 1.3 * bound_s


def test_background_traffic_offers_its_rate_and_slows_others_down() -> None:
    async def program(comm: Communicator) -> None:
        await comm.iallreduce(np.ones(4_000_000, np.float32))

    def time_s(background: bool) -> float:
        with innet.Simulation(star(4), seed=5) as sim:
            group = sim.group(algorithm="inc")
            traffic = None
            if background:
                traffic = sim.background("h0", "h1", rate_bps=0.5 * RATE_BPS, flow_bytes=200_000)
            sim.run(*(program(comm) for comm in group))
            if traffic is not None:
                assert traffic.offered_bytes * 8 / sim.now_s == pytest.approx(
                    0.5 * RATE_BPS, rel=0.4
                )
            return sim.now_s

    assert time_s(background=True) > 1.3 * time_s(background=False)


def test_streams_are_deterministic() -> None:
    def digest(seed: int) -> int:
        with innet.Simulation(star(4, loss=0.01), seed=seed) as sim:
            sim.background("h0", "h1", rate_bps=1e8)
            sim.run(Ring(sim).allreduce(3_000_000))
            return sim.counters()["digest"]

    assert digest(1) == digest(1)
    assert digest(1) != digest(2)


def test_a_stream_survives_a_temporary_loss_of_a_switch() -> None:
    with innet.Simulation(star(2)) as sim:
        sim.at(0.01, sim.crash, "s0")
        sim.at(1.0, sim.restart, "s0")
        sim.run(sim.stream("h0", "h1").send(10_000_000))
        assert 1.0 < sim.now_s < 5.0


def test_ends_that_are_not_hosts_are_refused() -> None:
    with innet.Simulation(star(2)) as sim:
        with pytest.raises(SimulationError, match="'s0' is not a host"):
            sim.stream("h0", "s0")
        with pytest.raises(SimulationError, match="itself"):
            sim.stream("h0", "h0")
        with pytest.raises(SimulationError, match="'bbr'"):
            sim.stream("h0", "h1", congestion="bbr")
        with pytest.raises(SimulationError, match="above 0"):
            sim.background("h0", "h1", rate_bps=0)
        with pytest.raises(SimulationError, match="at least two"):
            Ring(sim, ["h0"])
