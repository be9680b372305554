"""Connections that break, machines that fall silent or are killed, and what goes on."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

import pytest

from innet.cluster.machines.listener import JoinedMachine
from innet.cluster.machines.messages import Heartbeats
from innet.errors import EmulationError
from tests.cluster.machines.cluster import PATIENT, cluster_of, folder
from tests.cluster.machines.tcp_proxy import TcpProxy

IMPATIENT = Heartbeats(interval_s=0.05, timeout_s=0.5)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


async def test_streams_continue_over_successive_connections(tmp_path: Path) -> None:
    content = random.Random(1).randbytes(3_000_000)
    agent_dir = folder(tmp_path, "agent")
    lost: list[str] = []
    async with (
        cluster_of(tmp_path, "h1") as cluster,
        TcpProxy(cluster.listener.address) as proxy,
        cluster.connection("h1", address=proxy.address) as connection,
    ):
        cluster.listener.on_lost(lambda _machine, reason: lost.append(reason))
        await asyncio.start_unix_server(echo, agent_dir / "h1.ctl")
        connection.offer(agent_dir, ["h1.ctl"])
        await connection.serve(agent_dir)
        machine = await cluster.listener.joined("h1")
        await machine.serve(["h1.ctl"])
        reader, writer = await asyncio.open_unix_connection(cluster.run_dir / "h1.ctl")
        writer.write(content)
        writer.write_eof()
        answered = bytearray()
        while data := await reader.read(1 << 16):
            if len(answered) // 300_000 < (len(answered) + len(data)) // 300_000:
                proxy.cut()
            answered += data
        assert answered == content
        assert proxy.accepted > 2
        assert await cluster.listener.joined("h1") is machine
        writer.close()
    assert lost == ["the network was taken down"]


async def test_a_silent_machine_is_lost_at_both_ends_and_its_streams_are_closed(
    tmp_path: Path,
) -> None:
    agent_dir = folder(tmp_path, "agent")
    lost: asyncio.Queue[tuple[JoinedMachine, str]] = asyncio.Queue()
    async with (
        cluster_of(tmp_path, "h1", heartbeats=IMPATIENT) as cluster,
        TcpProxy(cluster.listener.address) as proxy,
        cluster.connection("h1", address=proxy.address) as connection,
    ):
        cluster.listener.on_lost(lambda machine, reason: lost.put_nowait((machine, reason)))
        await asyncio.start_unix_server(echo, agent_dir / "h1.ctl")
        connection.offer(agent_dir, ["h1.ctl"])
        await connection.serve(agent_dir)
        machine = await cluster.listener.joined("h1")
        await machine.serve(["h1.ctl"])
        reader, writer = await asyncio.open_unix_connection(cluster.run_dir / "h1.ctl")
        writer.write(b"x")
        assert await reader.read(1) == b"x"
        proxy.stop()
        assert await lost.get() == (machine, "machine h1 does not answer for 0.5 s")
        assert await reader.read() == b""
        assert not (cluster.run_dir / "h1.ctl").exists()
        with pytest.raises(EmulationError, match=r"h1 is lost: .* does not answer.* Start its"):
            await machine.serve(["h1.ctl"])
        assert await connection.ended()
        assert cluster.listener.missing == ("h1",)
        writer.close()


async def test_a_machine_that_was_lost_joins_with_a_new_session(tmp_path: Path) -> None:
    async with (
        cluster_of(tmp_path, "h1", heartbeats=IMPATIENT) as cluster,
        TcpProxy(cluster.listener.address) as proxy,
    ):
        async with cluster.connection("h1", address=proxy.address) as connection:
            machine = await cluster.listener.joined("h1")
            proxy.stop()
            await machine.lost()
            await connection.ended()
        proxy.go_on()
        async with cluster.connection("h1", address=proxy.address):
            assert await cluster.listener.joined("h1") is not machine


async def test_a_short_pause_ends_no_session(tmp_path: Path) -> None:
    agent_dir = folder(tmp_path, "agent")
    async with (
        cluster_of(tmp_path, "h1") as cluster,
        TcpProxy(cluster.listener.address) as proxy,
        cluster.connection("h1", address=proxy.address) as connection,
    ):
        await asyncio.start_unix_server(echo, agent_dir / "h1.ctl")
        connection.offer(agent_dir, ["h1.ctl"])
        await connection.serve(agent_dir)
        machine = await cluster.listener.joined("h1")
        await machine.serve(["h1.ctl"])
        proxy.stop()
        reader, writer = await asyncio.open_unix_connection(cluster.run_dir / "h1.ctl")
        writer.write(b"x")
        await asyncio.sleep(3 * PATIENT.interval_s)  # some heartbeats are late
        proxy.go_on()
        assert await reader.read(1) == b"x"
        assert proxy.accepted == 1
        assert not machine.is_lost
        writer.close()


async def test_a_machine_at_a_new_address_joins_with_a_new_session(tmp_path: Path) -> None:
    """Links lead to the address that it joined from."""
    async with (
        cluster_of(tmp_path, "h1") as cluster,
        TcpProxy(cluster.listener.address) as proxy,
    ):
        async with cluster.connection("h1", address=proxy.address) as connection:
            machine = await cluster.listener.joined("h1")
            assert machine.address == "127.0.0.1"
            proxy.source = ("127.0.0.2", 0)
            proxy.cut()
            assert await machine.lost() == (
                "machine h1 has another address: 127.0.0.2, before 127.0.0.1"
            )
            assert "the session of machine h1 is over" in await connection.ended()
        async with cluster.connection("h1", address=proxy.address):
            assert (await cluster.listener.joined("h1")).address == "127.0.0.2"


async def test_an_unexpected_exception_ends_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that waited on would keep its processes, and never join again."""

    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    async with cluster_of(tmp_path, "h1") as cluster, cluster.connection("h1") as connection:
        monkeypatch.setattr(connection._tunnel, "take", fail)
        assert await connection.ended() == "a defect"


AGENT = """
import asyncio, sys
from pathlib import Path
from innet.cluster.machines.addresses import Address
from innet.cluster.machines.connection import LauncherConnection

async def main():
    token, address = Path(sys.argv[1]), Address.parsed(sys.argv[2])
    async with LauncherConnection(token, address) as connection:
        print(connection.machine, flush=True)
        await connection.ended()

asyncio.run(main())
"""


async def test_an_agent_that_was_killed_is_replaced_at_once(tmp_path: Path) -> None:
    rare = Heartbeats(interval_s=600.0, timeout_s=1800.0)
    async with cluster_of(tmp_path, "h1", "h2", heartbeats=rare) as cluster:
        killed = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-c", AGENT, str(cluster.token), str(cluster.listener.address)),
            stdout=asyncio.subprocess.PIPE,
        )
        assert killed.stdout is not None
        assert await killed.stdout.readline() == b"h1\n"
        machine = await cluster.listener.joined("h1")
        killed.kill()
        await killed.wait()
        async with cluster.connection() as connection:
            assert connection.machine == "h1"
            assert (await machine.lost()).startswith("the agent of machine h1 was started again")
            assert await cluster.listener.joined("h1") is not machine


async def test_an_agent_waits_for_its_launcher(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, "h1") as cluster:
        address = cluster.listener.address
        async with TcpProxy(address) as proxy:
            at = proxy.address
        joining = asyncio.ensure_future(cluster.connection("h1", address=at).__aenter__())
        await asyncio.sleep(0)  # begins to connect, while nobody listens there
        async with TcpProxy(address, at.port):
            connection = await joining
            assert connection.machine == "h1"
            await connection.__aexit__()


async def test_joining_can_be_cancelled_in_every_state_of_the_launcher(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, "h1") as cluster, TcpProxy(cluster.listener.address) as proxy:
        proxy.stop()
        joining = asyncio.ensure_future(
            cluster.connection("h1", address=proxy.address).__aenter__()
        )
        await proxy.has_accepted.wait()
        joining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joining
