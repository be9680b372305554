"""Where prefixes are: the index beside a naive model, followed streams, and look-ups over HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from innet.errors import KVError
from innet.http_server import serving_http
from innet.kv.events.endpoints import Endpoints
from innet.kv.events.follower import Stream
from innet.kv.events.index import PrefixIndex
from innet.kv.events.pool_stream import PoolStream
from innet.kv.events.publisher import publishing
from innet.kv.events.service import LocateRequest, PoolDirectory, following, hops, make_app, serving
from innet.kv.events.source import BlockEvents
from innet.kv.events.wire import AllCleared, BlocksRemoved, BlocksStored, Event, decode
from innet.kv.names import BlockFamily
from innet.kv.pool.store import Tier
from innet.topology import load_topology
from tests.kv.test_events import State

Prompt = tuple[int, ...]
Ask = Callable[..., Awaitable[tuple[int, Any]]]
MEMBERS = ("a", "b", "c")
MEDIA = ("GPU", "CPU", "STORAGE")
LETTERS = st.integers(0, 1)
PROMPTS = st.lists(LETTERS, min_size=1, max_size=4).map(tuple)
"""Of blocks of one token."""


def hash_of(prompt: Prompt, engine: int = 0) -> int:
    """An engine's own hash of the block that ends a prompt."""
    return int("1" + "".join(map(str, prompt))) * 10 + engine


def stored(prompt: Prompt, medium: str, *, tokens: bool, engine: int = 0) -> BlocksStored:
    if not tokens:
        return BlocksStored((hash_of(prompt, engine),), medium=medium)
    parent = hash_of(prompt[:-1], engine) if len(prompt) > 1 else None
    return BlocksStored((hash_of(prompt, engine),), parent, prompt[-1:], 1, medium)


class NaiveIndex:
    """Every member's prompts, searched from the longest on."""

    def __init__(self) -> None:
        self.held: set[tuple[str, int, Prompt, str]] = set()
        self.described: set[tuple[int, Prompt]] = set()

    def known(self, engine: int, prompt: Prompt) -> bool:
        return all((engine, prompt[:end]) in self.described for end in range(1, len(prompt) + 1))

    def has(self, member: str, prompt: Prompt, media: Sequence[str]) -> bool:
        return any(
            m == member and p == prompt and medium in media and self.known(engine, p)
            for m, engine, p, medium in self.held
        )

    def prefix(self, member: str, prompt: Prompt, media: Sequence[str]) -> int:
        count = 0
        while count < len(prompt) and self.has(member, prompt[: count + 1], media):
            count += 1
        return count


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["store", "store", "store", "remove", "clear"]),
        st.sampled_from(MEMBERS),
        st.integers(0, 1),
        PROMPTS,
        st.sampled_from(MEDIA),
        st.booleans(),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(STEPS, st.lists(LETTERS, max_size=5).map(tuple))
def test_the_index_finds_what_a_search_finds(
    steps: list[tuple[str, str, int, Prompt, str, bool]], prompt: Prompt
) -> None:
    """Whoever says the tokens, in whatever order, and however engines hash them."""
    index, naive, pool, truth = PrefixIndex(), NaiveIndex(), PoolStream(), State()
    for what, member, engine, block, medium, tokens in steps:
        event: Event
        if what == "store":
            event = stored(block, medium, tokens=tokens, engine=engine)
            naive.held.add((member, engine, block, medium))
            if tokens:
                naive.described.add((engine, block))
        elif what == "remove":
            event = BlocksRemoved((hash_of(block, engine),), medium)
            naive.held.discard((member, engine, block, medium))
        else:
            event = AllCleared()
            naive.held = {each for each in naive.held if each[0] != member}
        pool.apply("m", index.apply(member, "m", [event]))
    found = index.locate("m", prompt, members=MEMBERS)
    for holding in found.holdings:
        expected = [naive.prefix(holding.member, prompt, MEDIA[:n]) for n in (3, 2, 1)]
        assert [holding.tokens, holding.memory_tokens, holding.gpu_tokens] == expected
    together = 0
    while together < len(prompt) and any(
        naive.has(member, prompt[: together + 1], MEDIA) for member in MEMBERS
    ):
        together += 1
    assert found.tokens == together
    for holding in found.holdings:
        ends = range(1, together + 1)
        assert holding.blocks == sum(naive.has(holding.member, prompt[:n], MEDIA) for n in ends)
    longest = index.locate("m", prompt).holdings
    assert {each.member for each in longest} == {h.member for h in found.holdings if h.blocks}
    assert [each.tokens for each in longest] == sorted((h.tokens for h in longest), reverse=True)
    for log in pool.streams.values():
        for _, payload in [log.cut(0.0) or (0, b"")]:
            truth.apply(list(decode(payload).events) if payload else [])
    assert truth.held == {(hash_of(block, e), medium) for _, e, block, medium in naive.held}


def test_the_pools_stream_has_tokens_as_soon_as_a_member_says_them() -> None:
    index, pool = PrefixIndex(), PoolStream()
    bare, whole = BlocksStored((1,)), BlocksStored((1,), None, (5, 6), 2)
    for member, event in (("a", bare), ("b", bare), ("c", whole), ("d", whole)):
        pool.apply("m", index.apply(member, "m", [event]))
    [log] = pool.streams.values()
    assert list(pool.streams) == [b"kv@pool@m"]
    numbered = log.cut(0.0)
    assert numbered is not None
    assert decode(numbered[1]).events == (AllCleared(), whole)
    for member in "abcd":
        pool.apply("m", index.apply(member, "m", [BlocksRemoved((1,))]))
    numbered = log.cut(0.0)
    assert numbered is not None
    assert decode(numbered[1]).events == (BlocksRemoved((1,)),)


def test_blocks_of_sliding_windows_are_no_prefix() -> None:
    index = PrefixIndex()
    whole = BlocksStored((1,), None, (5, 6), 2)
    window = BlocksStored((1,), None, (5, 6), 2, group=1, window=4)
    index.apply("a", "m", [window, whole])
    index.apply("b", "m", [window])
    [found] = index.locate("m", (5, 6)).holdings
    assert (found.member, found.tokens) == ("a", 2)
    index.apply("a", "m", [BlocksRemoved((1,), group=1)])
    assert index.locate("m", (5, 6)).tokens == 2
    index.apply("a", "m", [BlocksRemoved((1,))])
    assert index.locate("m", (5, 6)).tokens == 0


def test_blocks_that_wait_for_one_predecessor_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("innet.kv.events.index._MOST_WAITING", 8)
    index = PrefixIndex()
    index.apply("a", "m", [BlocksStored((each,), 1, (each,), 1) for each in range(10, 20)])
    index.apply("a", "m", [BlocksStored((1,), None, (1,), 1)])
    kept = [each for each in range(10, 20) if index.locate("m", [1, each]).tokens == 2]
    assert len(kept) <= 8


def test_salts_adapters_and_block_sizes_are_told_apart() -> None:
    index = PrefixIndex()
    index.apply("a", "m", [BlocksStored((1, 2), None, (1, 2, 3, 4), 2, extra=(("s",), None))])
    index.apply("b", "m", [BlocksStored((3,), None, (1, 2, 3, 4), 4, lora="tuned")])
    index.apply("c", "m", [BlocksStored((4,), None, (1,), 1)])
    assert index.locate("m", [1, 2, 3, 4, 5], salt="s").tokens == 4
    assert index.locate("m", [1, 2, 3, 4, 5], lora="tuned").holdings[0].member == "b"
    assert index.locate("m", [1, 2, 3, 4, 5]).holdings[0].member == "c"
    assert index.locate("other", [1, 2]).tokens == 0
    with pytest.raises(KVError, match="invalid token ids"):
        index.locate("m", [-1])


FAMILY = BlockFamily("a1b2", "00ff", "raw", 0, 1)


def block(number: int) -> bytes:
    return number.to_bytes(32, "big")


class Watched(PoolDirectory):
    """Wakes up the test after each change."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()

    def apply(self, member: str, model: str, events: list[Event]) -> None:
        super().apply(member, model, events)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def member(name: str, folder: Path) -> Any:
    """A member with a prompt of two blocks, [1, 2] and [3, 4], in memory."""
    events = BlockEvents(name, "llama")
    async with publishing(events, Endpoints.of(f"ipc://{folder}/{name}")):
        events.describe(FAMILY, [block(1), block(2)], [1, 2, 3, 4], 2)
        for number in (1, 2):
            events.on_tier(0, FAMILY.name(block(number)), Tier.MEMORY)
        yield events


@pytest.mark.parametrize("away_s", [0.0, 0.3])
async def test_streams_are_followed_over_the_death_and_return_of_a_member(
    away_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if away_s:
        monkeypatch.setattr("innet.kv.events.follower.REPLAY_S", away_s / 3)
    streams = [Stream(name, Endpoints.of(f"ipc://{tmp_path}/{name}")) for name in ("h0", "h1")]
    directory = Watched()

    def tokens() -> dict[str, int]:
        found = directory.index.locate("llama", [1, 2, 3, 4, 5])
        return {each.member: each.tokens for each in found.holdings}

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(member("h1", tmp_path))
        async with member("h0", tmp_path) as events:
            await stack.enter_async_context(following(directory, streams))
            await directory.until(lambda: tokens() == {"h0": 4, "h1": 4})
            events.on_tier(0, FAMILY.name(block(2)), None)
            await directory.until(lambda: tokens() == {"h0": 2, "h1": 4})
        await directory.until(lambda: tokens() == {"h1": 4})
        await asyncio.sleep(away_s)  # for longer than a replay is awaited
        await stack.enter_async_context(member("h0", tmp_path))
        await directory.until(lambda: tokens() == {"h0": 4, "h1": 4})


async def test_members_that_join_later_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("innet.kv.events.service._DISCOVERY_S", 0.01)
    h0, h1 = (Stream(name, Endpoints.of(f"ipc://{tmp_path}/{name}")) for name in ("h0", "h1"))
    directory, there = Watched(), [h0]
    async with member("h0", tmp_path), following(directory, [h0], lambda: there):
        async with member("h1", tmp_path):
            there.append(h1)
            await directory.until(lambda: directory.index.blocks("h1") == 2)
        await directory.until(lambda: directory.index.blocks("h1") == 0)
        assert directory.index.blocks("h0") == 2


async def test_a_search_for_members_that_fails_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("innet.kv.events.service._DISCOVERY_S", 0.0)
    searched = asyncio.Event()

    def discover() -> list[Stream]:
        searched.set()
        raise OSError("no run directory")

    async with following(PoolDirectory(), [], discover):
        await searched.wait()
    assert "members that join from now on are not followed: no run directory" in caplog.text


async def test_an_address_that_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    stream = Stream("h0", Endpoints.of(f"ipc://{tmp_path}/{'a' * 200}"))
    with pytest.raises(KVError, match="events of h0 cannot be followed at ipc://"):
        async with following(PoolDirectory(), [stream]):
            pass


@asynccontextmanager
async def client() -> AsyncIterator[Ask]:
    """Asks a directory of two members: ``ask(path, body, headers)`` gives the status and JSON."""
    directory = PoolDirectory(lambda near, to: 0 if near == to else 2)
    directory.apply("h0", "llama", [BlocksStored((1, 2), None, (1, 2, 3, 4), 2)])
    directory.apply("h1", "llama", [BlocksStored((1,), medium="STORAGE")])
    async with serving(directory) as address:

        async def ask(
            path: str, body: str | None = None, headers: dict[str, str] | None = None
        ) -> tuple[int, Any]:
            def send() -> tuple[int, bytes]:
                data = None if body is None else body.encode()
                request = urllib.request.Request(f"{address}{path}", data, headers or {})
                try:
                    with urllib.request.urlopen(request, timeout=30) as answer:
                        return answer.status, answer.read()
                except urllib.error.HTTPError as error:
                    return error.code, error.read()

            status, text = await asyncio.to_thread(send)
            return status, json.loads(text) if text.startswith(b"{") else text

        yield ask


async def test_prompts_are_located_over_http() -> None:
    question: dict[str, Any] = {
        "prompts": [[1, 2, 3, 4, 9], [7]],
        "members": ["h1", "h2"],
        "near": "h1",
    }
    async with client() as ask:
        status, answer = await ask("/v1/locate", json.dumps(question))
        first, second = answer["locations"]
        assert (status, first["tokens"], first["block_tokens"]) == (200, 4, 2)
        assert second["tokens"] == 0
        tokens = [np.array(each, "<u4").tobytes() for each in question.pop("prompts")]
        packed = [base64.b64encode(each).decode() for each in tokens]
        assert await ask("/v1/locate", json.dumps(question | {"packed": packed})) == (200, answer)
        here = {"member": "h1", "tokens": 2, "memory_tokens": 0, "gpu_tokens": 0, "blocks": 1}
        none = {"member": "h2", "tokens": 0, "memory_tokens": 0, "gpu_tokens": 0, "blocks": 0}
        assert first["holdings"] == [here | {"distance": 0}, none | {"distance": 2}]
        assert await ask("/v1/locate", '{"prompts": []}') == (200, {"locations": []})
        _, members = await ask("/v1/members")
        assert members == {"models": ["llama"], "blocks": {"h0": 2, "h1": 1}, "streams": []}


async def test_invalid_requests_are_refused() -> None:
    bodies = [
        "{",
        "{}",
        '{"packed": ["AAA="]}',
        '{"packed": ["?"]}',
        '{"prompts": [[-1]]}',
        '{"prompts": [[1]], "x": 1}',
        '{"prompts": [[""]]}',
        '{"prompts": [[4294967296]]}',
        '{"prompts": [[1]], "model": "other"}',
        json.dumps({"prompts": [[]] * 40_000}),
    ]
    async with client() as ask:
        for body in bodies:
            status, answer = await ask("/v1/locate", body)
            assert status == 400
            assert answer["error"]
        many = json.dumps({"prompts": [[1]], "members": ["h0"] * 70_000})
        _, answer = await ask("/v1/locate", many)
        assert "70000 members: name at most 65536" in answer["error"]
        assert (await ask("/v1/locate"))[0] == 405


async def test_prompts_are_located_in_msgpack() -> None:
    directory = PoolDirectory()
    directory.apply("h0", "llama", [BlocksStored((1, 2), None, (1, 2, 3, 4), 2)])
    question = {"packed": [np.array([1, 2, 3], "<u4").tobytes()]}
    headers = {"Content-Type": "application/msgpack"}
    async with serving(directory) as address:
        request = urllib.request.Request(
            f"{address}/v1/locate", msgspec.msgpack.encode(question), headers
        )
        answer = await asyncio.to_thread(lambda: urllib.request.urlopen(request).read())
        [location] = msgspec.msgpack.decode(answer)["locations"]
        assert (location["tokens"], location["holdings"][0]["member"]) == (2, "h0")


async def test_a_client_that_leaves_within_its_request_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(PoolDirectory()) as address:
        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST /v1/locate HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\n{{"
        writer.write(head.encode())
        writer.write_eof()
        await reader.read()
        writer.close()
    assert "Traceback" not in caplog.text


async def test_requests_that_are_too_large_or_too_slow_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("innet.kv.events.service._MOST_BODY_BYTES", 64)
    monkeypatch.setattr("innet.kv.events.service._BODY_S", 0.01)
    async with client() as ask:
        status, answer = await ask("/v1/locate", json.dumps({"prompts": [list(range(100))]}))
        assert (status, "64 bytes" in answer["error"]) == (413, True)
    async with serving(PoolDirectory()) as address:
        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST /v1/locate HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\n{{"
        writer.write(head.encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        assert await reader.read()  # to its end: the server closes the connection
        writer.close()


async def test_requests_that_arrive_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("innet.kv.events.service._MOST_BODIES_BYTES", 64)
    monkeypatch.setattr("innet.kv.events.service._SMALL_BODY_BYTES", 32)
    large, small = b" " * 60, b'{"prompts": []}'
    async with serving(PoolDirectory()) as address:
        host, port = address.removeprefix("http://").split(":")
        writers = []
        for body, length, status in ((large, 99, b""), (large, 99, b"503"), (small, 15, b"200")):
            reader, writer = await asyncio.open_connection(host, int(port))
            writers.append(writer)
            head = f"POST /v1/locate HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n"
            writer.write(f"{head}\r\n".encode() + body)
            if status:
                assert (await reader.readline()).split()[1] == status
        for writer in writers:
            writer.close()


async def test_a_response_does_not_wait_for_the_acknowledgement_of_its_head() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    async with serving_http(make_app(PoolDirectory()), listener):
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_distances_are_counted_from_hosts_of_the_network() -> None:
    distance = hops(load_topology("star:2"))
    assert [distance("h0", to) for to in ("h0", "h1", "elsewhere")] == [0, 2, None]
    with pytest.raises(KVError, match="no such host"):
        PoolDirectory(distance).locate(LocateRequest(prompts=[[1]], near="elsewhere"))


async def test_a_page_whose_name_resolves_to_loopback_reads_nothing() -> None:
    async with client() as ask:
        for path, body in (("/v1/members", None), ("/v1/locate", '{"prompts": [[1, 2]]}')):
            status, answer = await ask(path, body, {"Host": "evil.example"})
            assert (status, answer) == (400, b"Invalid host header")


async def test_the_openapi_document_describes_requests_and_answers() -> None:
    async with client() as ask:
        _, document = await ask("/openapi.json")
        _, answer = await ask("/v1/locate", '{"prompts": [[1, 2]]}')
    schemas = document["components"]["schemas"]
    named = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(document)))
    assert named == set(schemas)
    [location] = answer["locations"]
    assert set(location) == set(schemas["PromptLocation"]["properties"])
    assert set(location["holdings"][0]) == set(schemas["MemberHolding"]["properties"])
