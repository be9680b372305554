"""Machines join a launcher, are lost, come back; streams cross in both directions."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from innet.cluster.emulation.runs import create_run, find_run
from innet.cluster.machines.addresses import Address
from innet.cluster.machines.agent import AgentOptions, run_agent
from innet.cluster.machines.connection import LauncherConnection
from innet.cluster.requests import ClientConnection, RequestClient, RequestServer
from innet.errors import EmulationError, JoinRefused, SecurityError
from innet.node.requests import ControlRequest
from tests.cluster.machines.cluster import cluster_of, folder


def request_client(path: Path) -> RequestClient:
    return RequestClient(path, who="the other end")


async def tell(request: ControlRequest, client: ClientConnection) -> dict[str, object]:
    peer = client._writer.get_extra_info("peername")
    return {"params": request.params, "peer": peer.decode() if isinstance(peer, bytes) else ""}


@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]:0"])
async def test_requests_cross_in_both_directions(tmp_path: Path, address: str) -> None:
    agent_dir = folder(tmp_path, "agent")
    async with (
        cluster_of(
            tmp_path, "h1", offered=("session.sock",), address=Address.parsed(address)
        ) as cluster,
        RequestServer(cluster.run_dir / "session.sock", tell, who="session"),
        RequestServer(agent_dir / "h1.agent", tell, who="agent"),
        cluster.connection("h1") as connection,
    ):
        assert connection.machine == "h1"
        assert connection.network == "prod"
        connection.offer(agent_dir, ["h1.agent"])
        await connection.serve(agent_dir)
        machine = await cluster.listener.joined("h1")
        await machine.serve(["h1.agent"])
        for path in (cluster.run_dir / "h1.agent", agent_dir / "session.sock"):
            client = request_client(path)
            for size in (1, 3_000_000):
                reply = await client.request("tell", {"text": "x" * size})
                assert reply["params"] == {"text": "x" * size}
            client.close()


async def test_a_machine_without_a_name_gets_the_next_free_one(tmp_path: Path) -> None:
    async with (
        cluster_of(tmp_path, "h1", "h2", "h10") as cluster,
        cluster.connection() as one,
        cluster.connection("h2") as two,
        cluster.connection() as three,
    ):
        assert (one.machine, two.machine, three.machine) == ("h1", "h2", "h10")
        assert cluster.listener.missing == ()
        with pytest.raises(JoinRefused, match="all machines of network prod have joined"):
            async with cluster.connection():
                pass


async def test_a_restarted_machine_keeps_its_identity(tmp_path: Path) -> None:
    lost: list[str] = []
    async with cluster_of(tmp_path, "h1", "h2") as cluster:
        cluster.listener.on_lost(lambda machine, reason: lost.append(f"{machine.name}: {reason}"))
        async with cluster.connection() as connection:
            assert connection.machine == "h1"
            machine = await cluster.listener.joined("h1")
        assert "the agent of machine h1 has ended" in await machine.lost()
        for name in (None, "h1"):
            async with cluster.connection(name) as connection:
                assert connection.machine == "h1"
                again = await cluster.listener.joined("h1")
                assert again is not machine
            await again.lost()
    assert len(lost) == 3
    assert all(line.startswith("h1: ") for line in lost)


async def test_a_second_agent_of_a_name_is_refused(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, "h1") as cluster, cluster.connection("h1"):
        with pytest.raises(SecurityError, match="another agent on this host is machine h1"):
            async with cluster.connection("h1"):
                pass
        elsewhere = folder(tmp_path, "elsewhere") / "prod.token"
        shutil.copy(cluster.token, elsewhere)
        shutil.copy(f"{cluster.token}.h1.key", f"{elsewhere}.h1.key")
        with pytest.raises(JoinRefused, match="an agent of machine h1 is connected") as refusal:
            async with cluster.connection("h1", token=elsewhere, patience_s=0.0):
                pass
        assert refusal.value.reason == "connected"


async def test_a_copied_token_file_is_useless_once_its_secret_is_used(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path, "h1", "h2") as cluster:
        async with cluster.connection("h1"):
            pass
        copied = folder(tmp_path, "thief") / "prod.token"
        shutil.copy(cluster.token, copied)
        with pytest.raises(
            JoinRefused, match=r"was used from 127\.0\.0\.1 with another key"
        ) as error:
            async with cluster.connection("h1", token=copied):
                pass
        assert error.value.reason == "other-key"
        assert list(copied.parent.glob("*.key")) == []


async def test_a_machine_that_cannot_save_its_key_does_not_use_its_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def refusing(path: Any, *arguments: Any) -> int:
        if str(path).endswith(".key"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, *arguments)

    async with cluster_of(tmp_path, "h1") as cluster:
        for name in (None, "h1"):
            with monkeypatch.context() as patch:
                patch.setattr("os.open", refusing)
                with pytest.raises(SecurityError, match=r"cannot keep .*: Permission denied"):
                    async with cluster.connection(name):
                        pass
        async with cluster.connection("h1") as connection:
            assert connection.machine == "h1"


async def test_a_name_assigned_to_an_unnamed_agent_is_refused_with_the_reason(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path, "h1", "h2") as cluster, cluster.connection(None) as unnamed:
        assert unnamed.machine == "h1"
        copied = folder(tmp_path, "other") / "prod.token"
        shutil.copy(cluster.token, copied)
        with pytest.raises(JoinRefused, match=r"joined without --name .* was given h1"):
            async with cluster.connection("h1", token=copied):
                pass


async def test_an_exception_in_the_heartbeats_ends_sessions_with_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class DefectError(Exception):
        """What the heartbeats meet."""

    def fail(_tunnel: object) -> None:
        raise DefectError

    reported: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context["message"]))
    async with cluster_of(tmp_path, "h1") as cluster, cluster.connection("h1") as connection:
        machine = await cluster.listener.joined("h1")
        with monkeypatch.context() as patch:
            patch.setattr("innet.cluster.machines.tunnel.Tunnel.heartbeat", fail)
            assert "met a defect: DefectError()" in await machine.lost()
            assert "met a defect" in await connection.ended()
    assert reported == ["machines of this network are no longer served"]


async def test_a_token_of_another_launch_is_not_answered(tmp_path: Path) -> None:
    async with (
        cluster_of(tmp_path, "h1") as cluster,
        cluster_of(tmp_path, "h1", network="other") as other,
    ):
        with pytest.raises(EmulationError, match="is not the launcher that wrote"):
            async with LauncherConnection(other.token, cluster.listener.address, patience_s=0.0):
                pass


async def test_a_name_that_the_network_does_not_have_is_refused(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, "h1", "h2") as cluster:
        with pytest.raises(SecurityError, match="no machine 'h3'; its token file names h1, h2"):
            async with cluster.connection("h3"):
                pass


async def test_another_version_is_refused(tmp_path: Path, monkeypatch) -> None:
    said: list[str] = []
    async with cluster_of(tmp_path, "h1") as cluster:
        cluster.listener.on_refused(lambda address, reason: said.append(f"{address}: {reason}"))
        monkeypatch.setattr("innet.cluster.machines.connection.own_version", lambda: "9.9")
        with pytest.raises(JoinRefused, match=r"machine h1 has innet 9.9, the launcher .*Install"):
            async with cluster.connection("h1"):
                pass
    assert len(said) == 1
    assert said[0].startswith("127.0.0.1: machine h1 has innet 9.9")


async def test_a_missing_launcher_is_reported(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, "h1") as cluster:
        pass
    with pytest.raises(EmulationError, match=r"nobody listens on 127\.0\.0\.1"):
        async with cluster.connection("h1", patience_s=0.0):
            pass


async def test_a_name_that_does_not_resolve_is_reported(tmp_path: Path, monkeypatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async with cluster_of(tmp_path, "h1") as cluster:
        monkeypatch.setattr(socket, "getaddrinfo", fail)
        with pytest.raises(EmulationError, match=r"the name head\.example has no address: Name or"):
            async with cluster.connection(address=Address("head.example", 1), patience_s=0.0):
                pass


async def test_all_addresses_of_a_name_are_tried(tmp_path: Path, monkeypatch) -> None:
    """At the port in the token file, without another one; the user hears what is in the way."""
    said: list[str] = []
    async with cluster_of(tmp_path, "h1") as cluster:
        port = cluster.listener.address.port
        found = [(0, 0, 0, "", (host, port)) for host in ("127.0.0.7", "127.0.0.1")]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        head = Address("head.example", 0)
        async with cluster.connection(address=head, say=said.append) as connection:
            assert connection.machine == "h1"
            assert connection.reached == Address("127.0.0.1", port)  # links are of its family
    assert len(said) == 1
    assert said[0].startswith(f"not joined yet: nobody listens on head.example:{port}. Is the")


async def test_an_address_that_is_taken_is_refused(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, "h1") as cluster:
        with pytest.raises(EmulationError, match=r"cannot listen on 127\.0\.0\.1"):
            async with cluster_of(
                tmp_path, "h1", network="other", address=cluster.listener.address
            ):
                pass


async def test_agents_are_told_that_the_network_shuts_down(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, "h1") as cluster:
        connection = cluster.connection("h1")
        await connection.__aenter__()
    assert await connection.ended() == "the network was taken down"
    await connection.__aexit__()


async def test_a_host_joins_one_network_of_a_name_at_a_time(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    first = create_run("prod.h1", "prod", "cluster", part_of="prod")
    async with cluster_of(tmp_path, "h1") as cluster:
        options = AgentOptions(cluster.listener.address, cluster.token, "h1")
        with pytest.raises(EmulationError, match="is machine h1 of another network prod already"):
            await run_agent(options, print)
    assert find_run("prod.h1") == first
