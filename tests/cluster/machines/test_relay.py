"""Unix sockets over a relay: real connections, half-closed ones, ZeroMQ, servers that come late."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import zmq
import zmq.asyncio

from innet.cluster.machines.multiplexer import WINDOW_BYTES
from innet.cluster.machines.relay import Relay

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Relays:
    """The relays of a launcher and a machine, and their run directories."""

    def __init__(self, tmp_path: Path) -> None:
        self.near_dir, self.far_dir = tmp_path / "near", tmp_path / "far"
        self.near_dir.mkdir()
        self.far_dir.mkdir()
        self.frames = 0
        self.near = Relay(lambda frame: self._deliver(self.far, frame), is_launcher=True)
        self.far = Relay(lambda frame: self._deliver(self.near, frame), is_launcher=False)

    def _deliver(self, relay: Relay, frame: bytes) -> None:
        self.frames += 1
        asyncio.get_running_loop().call_soon(relay.receive, frame)

    async def __aenter__(self) -> Relays:
        self.far.offer({"far.sock": self.far_socket})
        await self.near.listen(self.near_dir, ["far.sock"])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.near.close()
        await self.far.close()

    @property
    def near_socket(self) -> Path:
        return self.near_dir / "far.sock"

    @property
    def far_socket(self) -> Path:
        return self.far_dir / "far.sock"

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 - nothing else tells that a stream is over
            await asyncio.sleep(0.001)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer all that came, once the client has ended."""
    content = await reader.read()
    writer.write(content)
    await writer.drain()
    writer.close()


async def test_a_half_closed_connection_still_gets_its_answer(tmp_path: Path) -> None:
    content = random.Random(1).randbytes(5 * WINDOW_BYTES + 7)
    async with Relays(tmp_path) as relays:
        await asyncio.start_unix_server(echo, relays.far_socket, limit=1 << 22)
        for _ in range(2):
            reader, writer = await asyncio.open_unix_connection(relays.near_socket)
            writer.write(content)
            writer.write_eof()
            assert await reader.read() == content
            writer.close()
        await relays.until(lambda: not relays.near.streams.streams)
        await relays.until(lambda: not relays.far.streams.streams)


async def test_many_connections_at_once(tmp_path: Path) -> None:
    async with Relays(tmp_path) as relays:
        await asyncio.start_unix_server(echo, relays.far_socket)

        async def ask(number: int) -> None:
            content = random.Random(number).randbytes(1000 * number)
            reader, writer = await asyncio.open_unix_connection(relays.near_socket)
            writer.write(content)
            writer.write_eof()
            assert await reader.read() == content
            writer.close()

        await asyncio.gather(*(ask(number) for number in range(100)))


async def test_zeromq_works_over_a_relay(tmp_path: Path) -> None:
    context = zmq.asyncio.Context()
    replier, requester = context.socket(zmq.REP), context.socket(zmq.REQ)
    try:
        async with Relays(tmp_path) as relays:
            replier.bind(f"ipc://{relays.far_socket}")
            requester.connect(f"ipc://{relays.near_socket}")
            for size in (0, 100, 2_000_000):
                await requester.send(bytes(size))
                assert len(await replier.recv()) == size
                await replier.send_multipart([b"a", bytes(size)])
                assert await requester.recv_multipart() == [b"a", bytes(size)]
    finally:
        context.destroy(linger=0)


async def test_a_relay_waits_for_a_server_that_does_not_listen_yet(tmp_path: Path) -> None:
    async with Relays(tmp_path) as relays:
        reader, writer = await asyncio.open_unix_connection(relays.near_socket)
        writer.write(b"early")
        writer.write_eof()
        await relays.until(lambda: relays.frames >= 3)
        await asyncio.start_unix_server(echo, relays.far_socket)
        assert await reader.read() == b"early"
        writer.close()


async def test_a_client_that_hangs_up_before_the_server_listens_leaves_nothing(
    tmp_path: Path,
) -> None:
    async with Relays(tmp_path) as relays:
        relays.far.withdraw(["far.sock"])
        reader, writer = await asyncio.open_unix_connection(relays.near_socket)
        assert await reader.read() == b""
        writer.close()
        await relays.until(lambda: not relays.near.streams.streams)
        assert relays.far.streams.streams == ()


async def test_the_close_of_one_end_reaches_the_other(
    tmp_path: Path,
) -> None:
    ended = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""
        ended.set()
        writer.close()

    async def leave(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with Relays(tmp_path) as relays:
        server = await asyncio.start_unix_server(wait, relays.far_socket)
        _, writer = await asyncio.open_unix_connection(relays.near_socket)
        writer.close()
        await ended.wait()
        server.close()
        await asyncio.start_unix_server(leave, relays.far_socket)
        reader, writer = await asyncio.open_unix_connection(relays.near_socket)
        assert await reader.read() == b""
        writer.close()
        await relays.until(lambda: not relays.near.streams.streams)


async def test_a_server_that_does_not_read_blocks_only_its_client(tmp_path: Path) -> None:
    """At most a window, and what sockets hold, is read from the client."""
    taken: list[asyncio.StreamReader] = []

    async def ignore(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        taken.append(reader)

    async with Relays(tmp_path) as relays:
        relays.far.offer({"echo.sock": relays.far_dir / "echo.sock"})
        await relays.near.listen(relays.near_dir, ["echo.sock"])
        await asyncio.start_unix_server(ignore, relays.far_socket, limit=1)
        await asyncio.start_unix_server(echo, relays.far_dir / "echo.sock")
        _, stuck = await asyncio.open_unix_connection(relays.near_socket)
        stuck.write(bytes(8 * WINDOW_BYTES))
        [stream] = relays.near.streams.streams or [1]
        await relays.until(lambda: relays.near.streams.credit(stream) == 0 and bool(taken))
        assert stuck.transport.get_write_buffer_size() > 4 * WINDOW_BYTES
        reader, writer = await asyncio.open_unix_connection(relays.near_dir / "echo.sock")
        writer.write(b"still served")
        writer.write_eof()
        assert await reader.read() == b"still served"
        digest = hashlib.sha256()
        got = 0
        while got < 8 * WINDOW_BYTES:
            part = await taken[0].read(1 << 16)
            digest.update(part)
            got += len(part)
        assert digest.digest() == hashlib.sha256(bytes(8 * WINDOW_BYTES)).digest()
        stuck.close()
        writer.close()


async def test_a_stream_reaches_the_socket_that_is_offered_under_its_name(tmp_path: Path) -> None:
    """And none of that name in the same folder."""
    reached: list[object] = []

    async def remember(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(writer.get_extra_info("sockname"))
        await echo(reader, writer)

    async with Relays(tmp_path) as relays:
        own = relays.far_dir / "far.sock@near"
        relays.far.offer({"far.sock": own})
        await asyncio.start_unix_server(remember, relays.far_socket)
        await asyncio.start_unix_server(remember, own)
        reader, writer = await asyncio.open_unix_connection(relays.near_socket)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
    assert reached == [str(own)]


async def test_closing_a_relay_closes_all_and_leaves_no_socket(tmp_path: Path) -> None:
    async with Relays(tmp_path) as relays:
        await asyncio.start_unix_server(lambda *_: None, relays.far_socket)
        reader, writer = await asyncio.open_unix_connection(relays.near_socket)
        await relays.until(lambda: bool(relays.far.streams.streams))
    assert await reader.read() == b""
    writer.close()
    assert not relays.near_socket.exists()
