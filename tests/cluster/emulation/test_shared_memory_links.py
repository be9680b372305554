"""Local links: memory that the processes at both ends share, or sockets by a setting."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from innet.cluster.emulation.network import Network
from innet.node.node_config import SharedMemoryChannel, SocketChannel, UdpChannel
from innet.topology import Topology, load_topology

TopologyFactory = Callable[..., Topology]

OPEN_LINKS = """
import os, pathlib
from innet.node.link_descriptors import link_descriptors
from innet.node.node_config import NodeConfig
config = NodeConfig.load(pathlib.Path(os.environ["INNET_NODE_CONFIG"]))
inodes = [[os.fstat(fd).st_ino for fd in fds[:1]] for fds in link_descriptors(config)]
print(sum(len(found) for found in inodes), len({found[0] for found in inodes}), flush=True)
"""
OPEN_LINKS_WITHOUT_INHERITING = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {OPEN_LINKS!r}], check=True)
"""


def channels(network: Network) -> list[UdpChannel | SocketChannel | SharedMemoryChannel]:
    nodes = network.topology.nodes
    return [face.channel for node in nodes for face in network.config(node).faces]


@pytest.mark.parametrize(
    "shape", [{}, {"rate_bps": 1e9}, {"delay_s": 0.001}, {"loss": 0.1}, {"duplicate": 0.1}]
)
@pytest.mark.parametrize("kind", [SharedMemoryChannel, SocketChannel])
async def test_all_links_have_the_requested_kind(
    line: TopologyFactory, shape: dict[str, float], kind: type
) -> None:
    async with Network(line(**shape), shared_memory=kind is SharedMemoryChannel) as network:
        assert {type(channel) for channel in channels(network)} == {kind}


@pytest.mark.parametrize("shared_memory", [True, False])
@pytest.mark.parametrize("program", [OPEN_LINKS, OPEN_LINKS_WITHOUT_INHERITING])
async def test_each_process_of_a_node_gets_its_links_even_if_they_exceed_one_message(
    program: str, shared_memory: bool
) -> None:
    lines: list[tuple[str, str]] = []
    topology = load_topology("star:100" if shared_memory else "star:260")
    async with Network(
        topology, shared_memory=shared_memory, output=lambda *seen: lines.append(seen)
    ) as network:
        process = network.spawn("s0", [sys.executable, "-c", program])
        assert await process.wait() == 0, process.failure_report()
    count = len(topology.links)
    assert lines == [("s0", f"{count} {count}")]
