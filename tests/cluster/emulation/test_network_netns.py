"""Netns mode: what foreign programs find on the links that the kernel makes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

import pytest

from innet.cluster.emulation.kernel_network import LinkDirection
from innet.cluster.emulation.network import Network
from innet.cluster.emulation.processes import SupervisedProcess
from innet.errors import EmulationError
from innet.topology import Host, Topology, load_topology
from tests.faults.links import set_link

pytestmark = pytest.mark.netns

TopologyFactory = Callable[..., Topology]
UDP_IP_ETHERNET_BYTES = 42

TCP_SINK = """
import socket, sys, time
server = socket.create_server((sys.argv[1], 5000))
print("listening", flush=True)
connection, peer = server.accept()
begin, count = time.monotonic(), 0
while data := connection.recv(65536):
    count += len(data)
print(peer[0], count, time.monotonic() - begin)
"""

TCP_SOURCE = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 5000), timeout=30)
connection.sendall(bytes(int(sys.argv[2])))
"""

UDP_SINK = """
import signal, socket, sys
sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sink.bind((sys.argv[1], 5001))
print("bound", flush=True)
signal.pause()
"""

UDP_SOURCE = """
import os, socket, sys
source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
source.connect((sys.argv[1], 5001))
source.setblocking(sys.argv[4] == "blocking")
for _ in range(int(sys.argv[2])):
    try:
        source.send(bytes(int(sys.argv[3])))
    except BlockingIOError:
        pass
"""

LARGEST_DATAGRAM = """
import socket, sys
source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2
source.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
source.connect((sys.argv[1], 5001))
source.send(bytes(int(sys.argv[2])))
try:
    source.send(bytes(int(sys.argv[2]) + 1))
except OSError as error:
    print(error.strerror)
"""


class Lines:
    """Collects what the processes print."""

    def __init__(self) -> None:
        self.by_label: dict[str, list[str]] = {}
        self._changed = asyncio.Event()

    def __call__(self, label: str, line: str) -> None:
        self.by_label.setdefault(label, []).append(line)
        self._changed.set()

    async def until(self, label: str, line: str) -> None:
        """Wait until a process has printed a line."""
        while line not in self.by_label.get(label, []):
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), 240)


async def transfer(network: Network, lines: Lines, size_bytes: int) -> tuple[str, int, float]:
    """Send ``size_bytes`` from h0 to h1 over TCP; the peer seen, bytes got, seconds taken."""
    sink = network.spawn("h1", [sys.executable, "-c", TCP_SINK, address(network)])
    await lines.until("h1", "listening")
    argv = [sys.executable, "-c", TCP_SOURCE, address(network), str(size_bytes)]
    assert await network.spawn("h0", argv).wait() == 0, lines.by_label
    assert await sink.wait() == 0, lines.by_label
    peer, count, elapsed_s = lines.by_label["h1"][-1].split()
    return peer, int(count), float(elapsed_s)


async def start_udp_source(
    network: Network, lines: Lines, count: int, size_bytes: int, blocking: str
) -> SupervisedProcess:
    """Begin to send datagrams from h0 to h1, where they are received in silence."""
    network.spawn("h1", [sys.executable, "-c", UDP_SINK, address(network)])
    await lines.until("h1", "bound")
    argv = ["-c", UDP_SOURCE, address(network), str(count), str(size_bytes), blocking]
    return network.spawn("h0", [sys.executable, *argv])


def address(network: Network) -> str:
    """The address of h1."""
    found = network.config("h1").ip_address
    assert found is not None
    return found


async def test_hosts_reach_each_other_by_tcp_through_two_switches(line: TopologyFactory) -> None:
    lines = Lines()
    async with Network(line(), mode="netns", output=lines) as network:
        peer, count, _ = await transfer(network, lines, 1 << 20)
        assert peer == network.config("h0").ip_address
    assert count == 1 << 20


async def test_programs_use_one_rail_and_memory_links_have_their_rate() -> None:
    lines = Lines()
    topology = load_topology("rails:2x2").with_workers(2, memory_rate_bps=1e8)
    async with Network(topology, mode="netns", output=lines) as network:
        peer, count, _ = await transfer(network, lines, 1 << 20)
        assert peer == network.config("h0").ip_address
        sent = await network.link_counters()
        assert sent[LinkDirection("h0", "eth1", "r1", "eth0")].bytes > 1 << 20
        assert sent[LinkDirection("h0", "eth0", "r0", "eth0")].bytes < 1 << 20
        faces = [*network.config("h0").faces, *network.config("h0.1").faces]
        assert [face.shape.rate_bps for face in faces] == [None, None, 1e8, 1e8, 1e8]
    assert count == 1 << 20


async def test_the_rate_limits_throughput(line: TopologyFactory) -> None:
    lines = Lines()
    async with Network(line(rate_bps=20e6), mode="netns", output=lines) as network:
        _, count, elapsed_s = await transfer(network, lines, 2_500_000)
    assert count == 2_500_000
    assert count * 8 / elapsed_s <= 1.1 * 20e6


@pytest.mark.skipif(os.geteuid() != 0, reason="sets a port down from outside, which takes root")
@pytest.mark.parametrize("rate_bps", [None, 100e6])
async def test_a_port_that_is_set_down_is_reported_at_both_ends(
    line: TopologyFactory, rate_bps: float | None
) -> None:
    async with Network(line(rate_bps=rate_bps), mode="netns") as network:
        assert all(counters.is_up for counters in (await network.link_counters()).values())
        set_link(network.run_id, "s1", "eth0", "down")
        counters = await network.link_counters()
        down = {str(link) for link, of_link in counters.items() if not of_link.is_up}
        assert down == {"s1:eth0->h1:eth0", "h1:eth0->s1:eth0"}
        set_link(network.run_id, "s1", "eth0", "up")
        assert all(counters.is_up for counters in (await network.link_counters()).values())


@pytest.mark.parametrize("rate_bps", [None, 100e6])
async def test_counters_count_exactly_the_sent_traffic(
    line: TopologyFactory, rate_bps: float | None
) -> None:
    lines = Lines()
    last = LinkDirection("s1", "eth0", "h1", "eth0")
    async with Network(line(rate_bps=rate_bps), mode="netns", output=lines) as network:
        source = await start_udp_source(network, lines, 10, 1000, "blocking")
        assert await source.wait() == 0, source.failure_report()
        counters = await network.link_counters()
        while counters[last].packets < 10:
            counters = await network.link_counters()
        of_s1 = await network.link_counters(["s1"])
    packets = {str(link): of_link.packets for link, of_link in counters.items()}
    assert packets == {
        "h0:eth0->s0:eth0": 10,
        "s0:eth1->s1:eth1": 10,
        "s1:eth0->h1:eth0": 10,
        "h1:eth0->s1:eth0": 0,
        "s1:eth1->s0:eth1": 0,
        "s0:eth0->h0:eth0": 0,
    }
    assert of_s1 == {link: counters[link] for link in counters if link.node == "s1"}
    assert counters[last].bytes == 10 * (1000 + UDP_IP_ETHERNET_BYTES)
    assert counters[last].drops == 0


async def test_a_full_queue_drops_and_is_never_deeper_than_configured(
    line: TopologyFactory,
) -> None:
    lines = Lines()
    topology = line(rate_bps=1e6, queue_bytes=16384, mtu_bytes=1500)
    egress = LinkDirection("h0", "eth0", "s0", "eth0")
    async with Network(topology, mode="netns", output=lines) as network:
        source = await start_udp_source(network, lines, 400, 1000, "nonblocking")
        depths_bytes = []
        while source.returncode is None:
            depths_bytes.append((await network.link_counters(["h0"]))[egress].backlog_bytes)
        counters = (await network.link_counters())[egress]
        depths_bytes.append(counters.backlog_bytes)
        assert source.returncode == 0, source.failure_report()
    assert counters.drops > 0
    assert 0 < max(depths_bytes) <= 16384


async def test_the_interface_has_the_mtu_of_its_link(line: TopologyFactory) -> None:
    lines = Lines()
    async with Network(line(mtu_bytes=4000), mode="netns", output=lines) as network:
        largest_bytes = network.config("h0").faces[0].mtu_bytes
        argv = ["-c", LARGEST_DATAGRAM, address(network), str(largest_bytes)]
        assert await network.spawn("h0", [sys.executable, *argv]).wait() == 0
    assert lines.by_label["h0"] == ["Message too long"]


async def test_the_port_model_emulates_only_delay_and_loss(line: TopologyFactory) -> None:
    topology = line(rate_bps=1e9, delay_s=0.01, loss=0.1)
    async with Network(topology, mode="netns") as network:
        shape = network.config("s0").faces[1].shape
    assert shape.model_dump(exclude_defaults=True) == {
        "rate_bps": None,
        "delay_s": 0.01,
        "loss": 0.1,
        "queue_bytes": 0,
        "mark_bytes": None,
    }


def test_a_link_that_the_kernel_cannot_shape_is_refused(line: TopologyFactory) -> None:
    with pytest.raises(EmulationError, match=r"1% duplicated.*local mode.*innet sim"):
        Network(line(duplicate=0.01), mode="netns")


async def test_faces_are_addresses_of_the_node(line: TopologyFactory) -> None:
    bind_all = """
import os, pathlib, socket
from innet.node.node_config import NodeConfig
for face in NodeConfig.load(pathlib.Path(os.environ["INNET_NODE_CONFIG"])).faces:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.bind((face.channel.local_address, face.channel.local_port))
    opened.connect((face.channel.peer_address, face.channel.peer_port))
"""
    async with Network(line(), mode="netns") as network:
        for node in network.topology.nodes:
            process = network.spawn(node, [sys.executable, "-c", bind_all])
            assert await process.wait() == 0, process.failure_report()


async def test_two_runs_are_isolated(line: TopologyFactory) -> None:
    lines = Lines()
    async with Network(line(), mode="netns", output=lines):
        async with Network(line(), mode="netns", output=lines) as network:
            _, count, _ = await transfer(network, lines, 1000)
        assert count == 1000


async def test_a_network_can_be_a_single_host() -> None:
    topology = Topology(name="alone", nodes={"h0": Host(name="h0")})
    async with Network(topology, mode="netns") as network:
        assert await network.spawn("h0", ["true"]).wait() == 0


async def test_kernel_counters_do_not_decrease_when_rates_come_and_go() -> None:
    async with Network(load_topology("star:2"), "netns") as network:
        topology = network.topology
        direction = next(d for d in await network.link_counters() if d.node == "h0")
        last = 0
        for rate_bps in (None, 1e6, 1e9, None):
            changed = topology.link_between("h0", "s0").model_copy(update={"rate_bps": rate_bps})
            await network.change_link(changed, is_up=True)
            argv = [sys.executable, "-c", UDP_SOURCE, address(network), "1", "1", "blocking"]
            sender = network.spawn("h0", argv)
            assert await sender.wait() == 0
            sent = (await network.link_counters())[direction].packets
            assert sent > last
            last = sent
