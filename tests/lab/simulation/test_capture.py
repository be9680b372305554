"""Packet traces, read by somebody else's library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapNgReader

import innet
from innet.collectives import Communicator
from innet.errors import SimulationError
from innet.lab.simulation.baselines import Ring
from innet.topology import load_topology

_NDN_TYPES = {0x05, 0x06, 0x64}  # Interest, Data, link packet


def star(hosts: int) -> innet.Topology:
    return load_topology(f"star:{hosts}").with_overrides(rate_bps=1e9, delay_s=1e-3)


def read(path: Path) -> list[tuple[Any, Any]]:
    with RawPcapNgReader(str(path)) as reader:
        return [(Ether(data), meta) for data, meta in reader]


def time_s(meta: Any) -> float:
    return float((meta.tshigh << 32) | meta.tslow) / float(meta.tsresol)


async def allreduce(comm: Communicator, array: np.ndarray) -> None:
    await comm.iallreduce(array)


def test_ndn_packets_are_written_as_datagrams_between_neighbours(tmp_path: Path) -> None:
    path = tmp_path / "trace.pcapng"
    with innet.Simulation(star(3)) as sim:
        sim.capture(path)
        group = sim.group(algorithm="inc")
        sim.run(*(allreduce(comm, np.ones(20_000, np.float32)) for comm in group))
        packets = sim.counters()["packets"]
        end_s = sim.now_s
    trace = read(path)
    assert len(trace) == packets
    names = {meta.ifname.decode() for _, meta in trace}
    assert names == {f"{a}->{b}" for h in ("h0", "h1", "h2") for a, b in ((h, "s0"), ("s0", h))}
    times_s = [time_s(meta) for _, meta in trace]
    assert times_s == sorted(times_s)
    assert times_s[0] > 1e-3  # nothing crosses a link faster than its delay
    assert times_s[-1] <= end_s + 1e-9
    for frame, meta in trace:
        assert (frame[UDP].sport, frame[UDP].dport) == (6363, 6363)
        assert bytes(frame[UDP].payload)[0] in _NDN_TYPES
        assert meta.wirelen == len(frame) == frame[IP].len + 14
        checked = IP(bytes(frame[IP]))
        checksum, checked.chksum = checked.chksum, None
        assert IP(bytes(checked)).chksum == checksum


def test_one_link_can_be_captured(tmp_path: Path) -> None:
    path = tmp_path / "trace.pcapng"
    with innet.Simulation(star(3)) as sim:
        sim.capture(path, links=[("h1", "s0")])
        group = sim.group(algorithm="inc")
        sim.run(*(allreduce(comm, np.ones(100, np.float32)) for comm in group))
    assert {meta.ifname.decode() for _, meta in read(path)} == {"h1->s0", "s0->h1"}


def test_virtual_payloads_count_in_the_length(tmp_path: Path) -> None:
    path = tmp_path / "trace.pcapng"
    topology = star(2).with_overrides(mtu_bytes=65000)
    with innet.Simulation(topology, virtual_scale=1000) as sim:
        sim.capture(path)
        group = sim.group(algorithm="inc")
        sim.run(*(allreduce(comm, sim.array(1_000_000)) for comm in group))
    full = [(frame, meta) for frame, meta in read(path) if meta.wirelen > 60_000]
    assert full
    for frame, meta in full:
        assert len(frame) < 1000
        assert frame[IP].len == meta.wirelen - 14


def test_streams_are_written_as_tcp_between_their_hosts(tmp_path: Path) -> None:
    path = tmp_path / "trace.pcapng"
    with innet.Simulation(star(3)) as sim:
        sim.capture(path, links=[("h0", "s0")])
        sim.run(Ring(sim).allreduce(300_000))
    segments = [frame for frame, _ in read(path)]
    # Two thirds of the tensor, twice, out and in.
    assert all(TCP in frame for frame in segments)
    data_bytes = sum(f[IP].len - 20 - 4 * f[TCP].dataofs for f in segments if f[TCP].dport == 5001)
    assert data_bytes == 2 * 2 * 200_000


def test_a_trace_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with innet.Simulation(star(2)) as sim:
        with pytest.raises(SimulationError, match="nowhere"):
            sim.capture(tmp_path / "nowhere" / "trace.pcapng")
        with pytest.raises(SimulationError, match="no link"):
            sim.capture(tmp_path / "trace.pcapng", links=[("h0", "h1")])
