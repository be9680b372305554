"""The HTTP server: clients that send slowly, endlessly or nothing, and clients that do not read."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from starlette.types import Receive, Scope, Send

from innet.http_server import serving_http

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
UNFINISHED = {
    "no request": b"",
    "a part of a head": GET[:-2],
    "a part of a body": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
    "an answered request": GET,
}
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Site:
    """A server of 100,000 bytes, which may wait for permission to answer."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.size = 100_000
        self.answered = asyncio.Event()

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that has arrived."""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            if not message.get("more_body"):
                break
        await self.may_answer.wait()
        length = str(self.size).encode()
        headers = [(b"content-length", length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(self.size - 1), "more_body": True})
        await send({"type": "http.response.body", "body": bytes(1)})
        self.answered.set()

    async def connect(self, sent: bytes = b"") -> Connection:
        """A connection that has sent something."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(sent)
        await writer.drain()
        return reader, writer

    async def status(self) -> int:
        """The status of a request on a connection of its own."""
        reader, writer = await self.connect(GET)
        status = int((await reader.readline()).split()[1])
        writer.close()
        return status


@asynccontextmanager
async def site(*, cuts_responses: bool = True) -> AsyncIterator[Site]:
    listener = socket.create_server(("127.0.0.1", 0))
    there = Site(listener.getsockname()[1])
    serving = serving_http(there, listener, cuts_responses=cuts_responses)
    async with asyncio.timeout(60), serving:
        yield there


async def ends(reader: asyncio.StreamReader) -> bytes:
    """What arrives until the server ends the connection."""
    received = bytearray()
    try:
        while chunk := await reader.read(1 << 16):
            received += chunk
    except ConnectionResetError:
        pass
    return bytes(received)


@pytest.mark.parametrize("sent", UNFINISHED.values(), ids=UNFINISHED.keys())
async def test_clients_that_send_no_request_keep_nobody_out(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("innet.http_server._MOST_CONNECTIONS", 8)
    async with site() as there:
        connections = [await there.connect(sent) for _ in range(20)]
        assert await there.status() == 200
        for reader, _ in connections[:12]:
            await ends(reader)
        assert not any(reader.at_eof() for reader, _ in connections[-7:])
        for _, writer in connections:
            writer.close()


async def test_while_all_connections_are_answered_others_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("innet.http_server._MOST_CONNECTIONS", 8)
    async with site() as there:
        there.may_answer.clear()
        connections = [await there.connect(GET) for _ in range(8)]
        assert await there.status() == 503
        there.may_answer.set()
        for reader, writer in connections:
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
            writer.close()
        assert await there.status() == 200


@pytest.mark.parametrize("sent", UNFINISHED.values(), ids=UNFINISHED.keys())
async def test_a_client_that_sends_no_request_in_time_is_cut(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("innet.http_server._CLIENT_S", 0.05)
    monkeypatch.setattr("innet.http_server._TICK_S", 0.01)
    async with site() as there:
        reader, writer = await there.connect(sent)
        await ends(reader)
        writer.close()


async def test_a_client_that_does_not_read_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("innet.http_server._CLIENT_S", 0.05)
    monkeypatch.setattr("innet.http_server._TICK_S", 0.01)
    async with site() as there:
        there.size = 32 << 20
        _, writer = await there.connect(GET)
        await there.answered.wait()
        writer.close()


@pytest.mark.parametrize("beginning", [GET[:-2] + b"X-A: ", CHUNKED + b"0\r\nX-A: "])
async def test_a_head_or_trailer_without_end_is_refused(beginning: bytes) -> None:
    async with site() as there:
        reader, writer = await there.connect(beginning)
        try:
            for _ in range(100):
                writer.write(b"a" * (64 << 10))
                await writer.drain()
        except ConnectionError:
            pass
        answer = await ends(reader)
        assert not answer or answer.startswith(b"HTTP/1.1 431 ")
        assert writer.is_closing() or reader.at_eof() or reader.exception()
        assert await there.status() == 200


async def test_a_body_in_small_chunks_is_no_head_without_end() -> None:
    async with site() as there:
        reader, writer = await there.connect(CHUNKED)
        for _ in range(20):
            writer.write(b"5\r\nhello\r\n" * 4000)
            await writer.drain()
        writer.write(b"0\r\nX-A: 1\r\n\r\n")
        assert (await reader.readline()).split()[1] == b"200"
        writer.close()


@pytest.mark.parametrize(("requests", "answers"), [(32, 32), (5000, 0)])
async def test_requests_that_wait_on_a_connection_are_bounded(requests: int, answers: int) -> None:
    async with site() as there:
        there.size = 1
        reader, writer = await there.connect(GET * requests)
        writer.write_eof()  # the answers arrive although this side has ended
        assert (await ends(reader)).count(b"HTTP/1.1 200 ") == answers
        writer.close()


async def test_a_server_that_ends_answers_whole_requests_and_cuts_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("innet.http_server._REQUEST_GRACE_S", 0.05)
    async with AsyncExitStack() as stack:
        there = await stack.enter_async_context(site(cuts_responses=False))
        there.may_answer.clear()
        whole, first = await there.connect(GET)
        part, second = await there.connect(UNFINISHED["a part of a body"])
        ending = asyncio.create_task(stack.aclose())
        assert await ends(part) == b""
        there.may_answer.set()
        assert (await whole.readline()).startswith(b"HTTP/1.1 200 ")
        first.close()
        second.close()
        await ending
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
