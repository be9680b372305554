"""Local links that nobody shapes: memory that the processes at both ends share."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from innet.emulation.network import Network
from innet.emulation.node_config import SharedMemoryChannel, UdpChannel
from innet.topology import Topology, load_topology

TopologyFactory = Callable[..., Topology]

OPEN_LINKS = """
import os, pathlib
from innet.emulation.link_descriptors import link_descriptors
from innet.emulation.node_config import NodeConfig
config = NodeConfig.load(pathlib.Path(os.environ["INNET_NODE_CONFIG"]))
inodes = [[os.fstat(fd).st_ino for fd in fds[:1]] for fds in link_descriptors(config)]
print(sum(len(found) for found in inodes), len({found[0] for found in inodes}), flush=True)
"""
OPEN_LINKS_WITHOUT_INHERITING = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {OPEN_LINKS!r}], check=True)
"""


def channels(network: Network) -> list[UdpChannel | SharedMemoryChannel]:
    nodes = network.topology.nodes
    return [face.channel for node in nodes for face in network.config(node).faces]


async def test_links_that_nobody_shapes_share_memory(line: TopologyFactory) -> None:
    async with Network(line()) as network:
        assert {type(channel) for channel in channels(network)} == {SharedMemoryChannel}


@pytest.mark.parametrize(
    "shape", [{"rate_bps": 1e9}, {"delay_s": 0.001}, {"loss": 0.1}, {"duplicate": 0.1}]
)
async def test_shaped_links_are_sockets(line: TopologyFactory, shape: dict[str, float]) -> None:
    async with Network(line(**shape)) as network:
        assert {type(channel) for channel in channels(network)} == {UdpChannel}


async def test_all_links_are_sockets_where_that_is_asked_for(line: TopologyFactory) -> None:
    async with Network(line(), shared_memory=False) as network:
        assert {type(channel) for channel in channels(network)} == {UdpChannel}


@pytest.mark.parametrize("program", [OPEN_LINKS, OPEN_LINKS_WITHOUT_INHERITING])
async def test_each_process_of_a_node_gets_its_links_even_more_than_fit_a_message(
    program: str,
) -> None:
    lines: list[tuple[str, str]] = []
    topology = load_topology("star:100")
    async with Network(topology, output=lambda *seen: lines.append(seen)) as network:
        process = network.spawn("s0", [sys.executable, "-c", program])
        assert await process.wait() == 0, process.failure_report()
    assert lines == [("s0", "100 100")]
