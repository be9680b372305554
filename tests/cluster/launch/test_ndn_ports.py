"""Nodes listen on IP ports in their namespaces, for programs in others."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from innet.cluster.launch import Session
from innet.node.node_config import UdpChannel
from innet.settings import Settings
from innet.topology import load_topology
from tests.said import Said

WORKER = Path(__file__).parent / "workers" / "asks_over_ip.py"
PORT = 6363


@pytest.mark.netns
def test_a_program_reaches_nodes_in_other_namespaces_over_tcp_and_udp() -> None:
    async def run() -> tuple[Said, list[str]]:
        said = Said()
        settings = Settings().with_assignments([f"ndn.port={PORT}"])
        topology = load_topology("star:2")
        async with Session(topology, mode="netns", settings=settings, output=said) as session:
            server = session.network.config("h0").ip_address
            channel = session.network.config("h1").faces[0].channel
            assert isinstance(channel, UdpChannel)
            switch = channel.peer_address
            uris = [
                f"{scheme}://{address}:{PORT}"
                for scheme in ("tcp", "udp")
                for address in (server, switch)
            ]
            await session.run_workers([sys.executable, str(WORKER), *uris])
        return said, uris

    said, uris = asyncio.run(run())
    assert said.by("h1") == [f"{uri}: from h0, from h0" for uri in uris]
