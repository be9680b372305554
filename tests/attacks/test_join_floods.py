"""Floods of connections at the port where machines join: strangers alone lose theirs."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from innet.cluster.machines import connection_limit
from innet.cluster.machines.addresses import Address
from innet.cluster.machines.messages import Heartbeats
from tests.cluster.machines.cluster import Cluster, cluster_of
from tests.cluster.machines.tcp_proxy import TcpProxy

FLOOD = Path(__file__).parent / "workers" / "flood.py"
PER_S = 500
LONGEST_S = 60
BRIEF = Heartbeats(interval_s=0.2, timeout_s=3.0)


@asynccontextmanager
async def flood(address: Address, per_s: int = PER_S) -> AsyncIterator[None]:
    """Strangers open connections, from before the block begins until it ends."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(FLOOD), address.host, str(address.port), str(per_s), str(LONGEST_S)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"flooded\n"
        yield
        assert process.returncode is None, "the flood ended too early"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@asynccontextmanager
async def network(tmp_path: Path) -> AsyncIterator[tuple[Cluster, list[str]]]:
    """A network with an echoing socket, and the names of machines that it lost."""
    names = ("h1", "h2")
    lost: list[str] = []
    async with cluster_of(tmp_path, *names, offered=("echo.sock",), heartbeats=BRIEF) as cluster:
        cluster.listener.on_lost(lambda machine, reason: lost.append(f"{machine.name}: {reason}"))

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(1000):
                writer.write(data)
            writer.close()

        async with await asyncio.start_unix_server(echo, cluster.run_dir / "echo.sock"):
            yield cluster, lost


async def echoes(folder: Path, seconds: float) -> int:
    """How many messages came back over one stream of the session."""
    reader, writer = await asyncio.open_unix_connection(folder / "echo.sock")
    loop = asyncio.get_running_loop()
    until_s, came = loop.time() + seconds, 0
    while loop.time() < until_s:
        writer.write(b"%d\n" % came)
        assert await reader.readline() == b"%d\n" % came
        came += 1
    writer.close()
    return came


def served(address: Address) -> int:
    """Connections that this process has accepted at an address, and not closed."""
    ends = psutil.Process().net_connections(kind="tcp")
    return sum(
        end.status == psutil.CONN_ESTABLISHED and end.laddr.port == address.port for end in ends
    )


async def test_a_flood_closes_no_connection_of_a_machine(tmp_path: Path) -> None:
    async with (
        network(tmp_path) as (cluster, lost),
        TcpProxy(cluster.listener.address) as proxy,
        cluster.connection("h1", address=proxy.address) as connection,
    ):
        (folder := tmp_path / "h1").mkdir()
        await connection.serve(folder)
        async with flood(cluster.listener.address):
            assert await echoes(folder, 2 * BRIEF.timeout_s) > 0
            assert served(cluster.listener.address) < 2 * connection_limit.MAX_STRANGERS
        assert proxy.accepted == 1  # over the same connection all the time
        assert lost == []


async def test_a_machine_joins_and_resumes_during_a_flood(tmp_path: Path) -> None:
    async with (
        network(tmp_path) as (cluster, lost),
        TcpProxy(cluster.listener.address) as proxy,
        cluster.connection("h1", address=proxy.address) as connection,
    ):
        (folder := tmp_path / "h1").mkdir()
        await connection.serve(folder)
        async with flood(cluster.listener.address):
            for number in range(3):
                resumed = proxy.accepted
                proxy.cut()
                assert await echoes(folder, 0.3) > 0
                assert proxy.accepted > resumed, number
            async with cluster.connection("h2") as late:
                assert late.machine == "h2"
            assert [each for each in lost if each.startswith("h1")] == []


async def test_the_address_with_most_connections_loses_them(tmp_path: Path, monkeypatch) -> None:
    """A machine that is joining from elsewhere keeps its connection."""
    monkeypatch.setattr(connection_limit, "MAX_STRANGERS", 8)
    async with network(tmp_path) as (cluster, _):
        address = cluster.listener.address
        other = await asyncio.open_connection(
            address.host, address.port, local_addr=("127.0.0.2", 0)
        )
        flood = [await asyncio.open_connection(address.host, address.port) for _ in range(20)]
        for reader, _writer in flood[:13]:
            with contextlib.suppress(ConnectionResetError):
                await reader.read()
        assert [reader.at_eof() for reader, _ in (*flood[13:], other)] == 8 * [False]
        for _, writer in (*flood, other):
            writer.close()


async def test_a_descriptor_of_something_else_is_never_closed(tmp_path: Path) -> None:
    """ZeroMQ closes a connection at any moment, and the number may be another file's then."""
    async with network(tmp_path) as (cluster, _):
        limit = cluster.listener._limit
        assert limit is not None
        address = cluster.listener.address
        reader, writer = await asyncio.open_connection(address.host, address.port)
        async with asyncio.timeout(20):
            while not limit._open:  # noqa: ASYNC110
                await asyncio.sleep(0)
        (ends,) = limit._open.values()
        own = writer.get_extra_info("socket").fileno()
        limit._open[own] = ends
        limit.close_connection(own)
        writer.write(b"x")
        await writer.drain()
        assert not reader.at_eof()
        writer.close()
