"""NDN programs as jobs and beside them, in one namespace and in another."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from innet.cluster.launch import Session
from innet.errors import CommandRefused, InterestRefused, SecurityError
from innet.ndn import Client
from innet.ndn.certificates import CertifiedSigner
from innet.node.node_config import UdpChannel
from innet.security.trust import Certificate, PrivateKey, Validity
from innet.security.trust.names import name_of
from innet.settings import Settings, SettingsError
from innet.topology import load_topology
from tests.said import Said


def test_a_plain_ndn_program_finds_the_node_of_its_host(run_job: Any) -> None:
    result = run_job("ndn_program.py", topology="star:2")
    assert result.failure == ""
    for host in ("h0", "h1"):
        assert f"refused by the node of {host}" in result.said(host)


async def _ask(uri: str) -> None:
    async with Client(uri) as client:
        with pytest.raises(InterestRefused):
            await client.express("/nobody/has/this", deadline_s=20)


def test_strangers_connect_to_a_switch_of_a_run() -> None:
    async def connect() -> None:
        async with Session(load_topology("star:2")) as session:
            config = session.network.config("s0")
            await _ask(f"unix://{config.ndn_socket}")
            status = await session.status()
            assert status["s0"]["listeners"] == [f"unix://{config.ndn_socket}"]

    asyncio.run(connect())


def _operator(path: Path, lifetime: timedelta = timedelta(days=1)) -> CertifiedSigner:
    """Whose certificate the file has; it counts from two days ago until after its lifetime."""
    key = PrivateKey.generate("ecdsa")
    now = datetime.now(UTC)
    certificate = Certificate.self_signed(
        name_of("/op/KEY/1"), key, Validity(now - timedelta(days=2), now + lifetime), version=1
    )
    path.write_text(certificate.to_text())
    return CertifiedSigner(key, certificate)


def test_switches_of_a_run_accept_commands_only_by_the_keys_of_its_settings(tmp_path: Path) -> None:
    operator = _operator(tmp_path / "operator.cert")
    settings = Settings().with_assignments(
        [f"ndn.commands_by={tmp_path / 'operator.cert'}", "ndn.localhop=true"]
    )

    async def register() -> None:
        async with Session(load_topology("star:2"), settings=settings) as session:
            uri = f"unix://{session.network.config('s0').ndn_socket}"
            async with Client(uri, command_signer=operator) as client:
                await client.register("/mine", lambda _: None)
            async with Client(uri) as client:
                with pytest.raises(CommandRefused, match="403"):
                    await client.register("/mine", lambda _: None)

    asyncio.run(register())


async def _start(settings: Settings) -> None:
    async with Session(load_topology("star:2"), settings=settings):
        pass


def test_a_run_does_not_start_with_a_certificate_that_has_expired(tmp_path: Path) -> None:
    _operator(tmp_path / "old.cert", timedelta(days=-1))
    settings = Settings().with_assignments([f"ndn.commands_by={tmp_path / 'old.cert'}"])
    with pytest.raises(SecurityError, match=r"old\.cert: this certificate has expired"):
        asyncio.run(_start(settings))


def test_neighbours_can_command_only_by_listed_keys() -> None:
    with pytest.raises(SettingsError, match=r"ndn\.commands_by=CERTIFICATE"):
        Settings().with_assignments(["ndn.localhop=true"])


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
