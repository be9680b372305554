"""Captures of running networks, in every mode, and what the files say."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapNgReader, rdpcap

from innet.cluster.emulation.runs import find_run
from innet.cluster.launch import Session
from innet.errors import EmulationError
from innet.node.node_config import Mode
from innet.observe.packets.capture import CaptureLimits, CaptureSession, chosen_links
from innet.observe.packets.frames import read_packets
from innet.observe.packets.outline import Outline, PacketChoice
from innet.settings import Settings
from innet.topology import load_topology

_WORKER = "import numpy as np, innet\ninnet.init().allreduce(np.ones(60_000, np.float32))\n"


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A registry of runs of its own, under a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="innet-test-") as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        yield


async def captured_job(
    mode: Mode, path: Path, places: list[str], settings: Settings | None = None
) -> int:
    """Capture a job of two ranks that sum a tensor, to the network's end; how many packets."""
    topology = load_topology("star:2").with_overrides(mtu_bytes=9000)
    async with Session(topology, mode=mode, run_id="seen", settings=settings) as session:
        ports = chosen_links(session.topology, places)
        capture = CaptureSession(find_run("seen"), ports, path)
        running = asyncio.create_task(asyncio.to_thread(capture.run))
        await session.run_workers([sys.executable, "-c", _WORKER], algorithm="inc")
    with capture:
        totals = await running
    assert totals.ended == "the network has ended"
    assert totals.lost == 0
    return totals.packets


def content_bytes(outline: Outline) -> int:
    """How long the Content of a Data packet is."""
    (told,) = (detail for detail in outline.details if detail.endswith(" bytes"))
    return int(told.split()[0])


@pytest.mark.parametrize(
    "mode", ["local", pytest.param("netns", marks=[pytest.mark.netns, pytest.mark.jobs])]
)
def test_the_packets_of_a_job_are_in_the_file(mode: Mode, tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    packets = asyncio.run(captured_job(mode, path, ["h0--s0"]))
    with RawPcapNgReader(str(path)) as reader:
        assert sum(1 for _ in reader) == packets
    read = list(read_packets(path))
    assert {packet.where for packet in read} == {"h0->s0", "s0->h0"}
    contributions = [Outline.of(p.packet) for p in read if p.where == "h0->s0"]
    sent = {o.uri: o for o in contributions if o.kind == "data" and "/0/sum.f32/" in o.uri}
    assert sum(content_bytes(outline) for outline in sent.values()) == 60_000 * 4
    if mode == "local":
        assert macs_of_sums(path) == [{bytes(28)}, {bytes(28)}], "trusted memory has none"
    for packet in read:
        frame = Ether(packet.frame)
        assert (frame[UDP].sport, frame[UDP].dport) == (6363, 6363)
        assert len(frame) == frame[IP].len + 14
        assert frame[IP].len <= 9000
        assert bytes(frame[UDP].payload) == packet.packet
        checked = IP(bytes(frame[IP]))
        del checked.chksum
        assert IP(bytes(checked)).chksum == frame[IP].chksum
    check_tshark_reads_it(path, packets)


def test_segments_in_untrusted_shared_memory_have_macs(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    settings = Settings().with_assignments(["security.trusted_memory=false"])
    asyncio.run(captured_job("local", path, ["h0--s0"], settings))
    for macs in macs_of_sums(path):
        assert macs
        assert bytes(28) not in macs


def macs_of_sums(path: Path) -> list[set[bytes]]:
    """What the segments of sums end with, in each direction of a link."""
    macs: dict[str, set[bytes]] = {"h0->s0": set(), "s0->h0": set()}
    for packet in read_packets(path):
        outline = Outline.of(packet.packet)
        if outline.kind == "data" and "/sum.f32/" in outline.uri:
            macs[packet.where].add(bytes(packet.packet[-28:]))
    return list(macs.values())


def check_tshark_reads_it(path: Path, packets: int) -> None:
    """If tshark is installed, it finds as many frames, with interfaces and NDN's port."""
    if shutil.which("tshark") is None:
        return
    shown = subprocess.run(
        ["tshark", "-r", str(path), "-T", "json", "-e", "udp.port", "-e", "frame.interface_name"],
        capture_output=True,
        check=True,
    )
    frames = [frame["_source"]["layers"] for frame in json.loads(shown.stdout)]
    assert len(frames) == packets
    assert {frame["frame.interface_name"][0] for frame in frames} == {"h0->s0", "s0->h0"}
    assert ["6363", "6363"] in [frame.get("udp.port") for frame in frames]


def test_limits_end_a_capture(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"

    async def run() -> None:
        async with Session(load_topology("star:1"), run_id="seen") as session:
            record, ports = find_run("seen"), chosen_links(session.topology, [])
            with CaptureSession(record, ports, path) as capture:
                await asyncio.to_thread(capture.run, CaptureLimits(packets=2))
            assert capture.totals.ended == "the packet limit is reached"
            assert len(rdpcap(str(path))) == capture.totals.packets == 2
            with CaptureSession(record, ports, path) as capture:
                await asyncio.to_thread(capture.run, CaptureLimits(size_bytes=60))
            assert capture.totals.ended == "the size limit is reached"
            assert capture.totals.size_bytes <= 60
            with CaptureSession(record, ports, path, PacketChoice.of(["/x"])) as capture:
                await asyncio.to_thread(capture.run, CaptureLimits(seconds=0.5))
            assert capture.totals.ended == "the time limit is reached"
            assert capture.totals.packets == 0  # there were none but hellos
            with pytest.raises(EmulationError, match="there is no folder"):
                CaptureSession(record, ports, tmp_path / "nowhere" / "a.pcapng")

    asyncio.run(run())


def test_links_are_captured_at_their_switch() -> None:
    ports = chosen_links(load_topology("leaf-spine:2x1x1"), [])
    assert all(port.node.startswith(("leaf", "spine")) for port in ports)
    assert len(ports) == 4
    assert [p.peer for p in chosen_links(load_topology("star:3"), ["h2", "h0--s0"])] == ["h0", "h2"]
