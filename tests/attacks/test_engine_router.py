"""Pages, idle clients and crafted bodies at the router before engines."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from innet.kv.events.routing import Costs, RouterName, make_router

sys.path.insert(0, str(Path(__file__).parents[2] / "apps"))

from routing.engines import Engine, Placement
from routing.front import Front
from routing.site import BoundedSite, Connections

PATH = "/v1/completions"


@asynccontextmanager
async def served(
    app: web.Application, connections: Connections | None = None
) -> AsyncIterator[tuple[str, int]]:
    """The address of an application on loopback."""
    listener = socket.create_server(("127.0.0.1", 0))
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = BoundedSite(runner, listener)
    site.connections = connections or Connections()
    await site.start()
    try:
        yield listener.getsockname()
    finally:
        await runner.cleanup()


@asynccontextmanager
async def router(
    tokens: object = (1,), name: RouterName = "prefix-hash", **limits: Any
) -> AsyncIterator[tuple[str, int]]:
    """A router before an engine that answers all, and says that a prompt has ``tokens``."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response({"tokens": tokens})

    engine = web.Application(client_max_size=1 << 30)
    engine.router.add_post("/{path:.*}", answer)
    engine.router.add_get("/{path:.*}", answer)
    connections = Connections(**limits)
    async with asyncio.timeout(120), served(engine) as (host, port):
        engines = [Engine("h0", f"http://{host}:{port}")]
        placement = Placement(engines, make_router(name, Costs(), ["h0"]), Costs(), None)
        front = Front(placement, hosts=["router.example"], connections=connections)
        async with served(front.app(), connections) as address:
            yield address


async def asked(address: tuple[str, int], body: bytes, **headers: str) -> tuple[int, str]:
    """The status and the message of an answer."""
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    url = f"http://{address[0]}:{address[1]}{PATH}"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=body, headers=named) as answer,
    ):
        if answer.content_type != "application/json":  # aiohttp's own, of heads
            return answer.status, await answer.text()
        document = await answer.json()
        return answer.status, document.get("error", {}).get("message", "")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "attacker.example"}, 421),
        ({"Host": "attacker.example:8080"}, 421),
        ({"Host": "127.0.0.1.attacker.example"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "[::1"}, 421),
        ({"Origin": "http://attacker.example"}, 421),
        ({"Origin": "null"}, 421),
        ({"Origin": "http://[::1"}, 421),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "router.example"}, 200),
        ({"Host": "localhost", "Origin": "http://localhost:3000"}, 200),
    ],
)
async def test_a_page_that_rebinds_its_name_reads_and_commands_nothing(
    headers: dict[str, str], status: int
) -> None:
    async with router() as address:
        answered, message = await asked(address, b'{"prompt": [1]}', **headers)
        assert answered == status
        assert status == 200 or "--host NAME" in message


@pytest.mark.parametrize("name", ["round-robin", "prefix-hash", "pool"])
@pytest.mark.parametrize("token", [1 << 63, -(1 << 63) - 1, 1 << 64, 10**4000])
async def test_a_token_id_beyond_64_bits_is_refused(name: RouterName, token: int) -> None:
    async with router(name=name) as address:
        body = b'{"prompt": [1, %d]}' % token
        status, message = await asked(address, body)
        assert status == 400
        assert "more than 64 bits" in message


@pytest.mark.parametrize(
    "tokens", [[1 << 64], [1e400], [None], "x", {"a": 1}, [[]], [float("nan")], ["9" * 5000]]
)
async def test_an_engine_that_tokenizes_into_anything_is_not_believed(tokens: object) -> None:
    async with router(tokens) as address:
        assert await asked(address, b'{"prompt": "a"}') == (200, "")


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("gzip", b'{"prompt": [1]}', 400),
        ("gzip", gzip.compress(b'{"prompt": [1]}')[:20], 400),
        ("deflate", b"\xff" * 100, 400),
        ("br", b'{"prompt": [1]}', 400),
        ("zstd", b'{"prompt": [1]}', 400),
        ("\u00e9".encode().decode("latin-1"), b"{}", 415),
        ("rot13", b'{"prompt": [1]}', 415),
        ("gzip, gzip", b'{"prompt": [1]}', 415),
        ("gzip", gzip.compress(bytes(80 << 20)), 413),
        ("gzip", gzip.compress(b'{"prompt": [1]}'), 200),
        ("identity", b'{"prompt": [1]}', 200),
    ],
    ids=[
        *(
            "plain",
            "cut",
            "noise",
            "br",
            "zstd",
            "latin",
            "unknown",
            "twice",
            "bomb",
            "gzip",
            "none",
        ),
    ],
)
async def test_a_body_in_another_encoding_than_its_head_says_is_refused(
    encoding: str, body: bytes, status: int
) -> None:
    async with router() as address:
        answered, message = await asked(address, body, Content_Encoding=encoding)
        assert answered == status, message
        assert answered == 200 or message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"a"',
        b"{",
        b"\xff",
        b'{"prompt": ' + b"[" * 100_000,
        b'{"prompt": [' + b"[]," * 3_000_000 + b"[]]}",
        b'{"prompt": [' + b"1" * 5000 + b"]}",
    ],
    ids=["nothing", "null", "list", "text", "open", "byte", "deep", "many", "digits"],
)
async def test_a_crafted_body_is_refused(body: bytes) -> None:
    async with router() as address:
        status, message = await asked(address, body)
        assert 400 <= status < 500
        assert message


@pytest.mark.parametrize("key", ["prompt", "model", "cache_salt", "messages", "lora_path", "tools"])
async def test_values_of_any_type_are_for_the_engine_to_judge(key: str) -> None:
    values: list[object] = [None, True, 1, 1.5, -1, "", "\ud800", [], [[]], [None], {}, {"a": []}]
    async with router() as address:
        for value in values:
            status, _ = await asked(address, json.dumps({key: value}).encode())
            assert status == 200, value


async def test_idle_connections_hold_few_descriptors_and_block_nobody() -> None:
    async with router(most=8) as address:
        idle = [await asyncio.open_connection(*address) for _ in range(30)]
        for _, writer in idle[:15]:
            writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: local")
        assert (await asked(address, b'{"prompt": [1]}'))[0] == 200
        for reader, _ in idle[:22]:
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
        for _, writer in idle:
            writer.close()


@pytest.mark.parametrize(
    "begin",
    [
        b"",
        b"POST /v1/completions HT",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
    ],
    ids=["nothing", "head", "body"],
)
async def test_a_connection_whose_request_does_not_come_is_closed(begin: bytes) -> None:
    async with router(client_s=0.1) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(begin)
        with suppress(ConnectionResetError):
            await reader.read()
        writer.close()
