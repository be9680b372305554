"""The router app, before engines that only say who they are."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from innet.kv.events.index import Holding, Location
from innet.kv.events.routing import ROUTERS, Costs, Prompt, RouterName, make_router
from innet.kv.events.service import PoolDirectory, serving
from innet.kv.events.wire import BlocksStored

sys.path.insert(0, str(Path(__file__).parents[2] / "apps"))

import engine_router
from routing.adapters import Adapters
from routing.engines import Engine, Placement
from routing.front import ENGINE_HEADER, Front

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
NAMES = ("h0", "h1", "h2")
PROMPT = list(range(2048))


@asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[str]:
    """The address of an application on loopback."""
    runner = web.AppRunner(app, handler_cancellation=True)  # as in engine_router.py
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def hang(_: web.Request) -> web.StreamResponse:
    """Accept a request, and never answer."""
    await asyncio.Event().wait()
    return web.Response()


async def spell(request: web.Request) -> web.StreamResponse:
    """Tokens are characters."""
    return web.json_response({"tokens": [ord(c) for c in (await request.json())["prompt"]]})


def engine_app(
    name: str, hold: asyncio.Event, left: asyncio.Event, tokenize: Handler = spell
) -> web.Application:
    """An engine that streams two lines, the second one when it is allowed to; ``left`` is set when
    a client does not wait for that."""

    async def complete(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(f"data: {name}\n\n".encode())
        try:
            await hold.wait()
        except asyncio.CancelledError:
            left.set()
            raise
        await response.write(b"data: [DONE]\n\n")
        return response

    async def models(_: web.Request) -> web.Response:
        cards = [{"id": "llama", "parent": None}, {"id": "tuned", "parent": "llama"}]
        return web.json_response({"data": cards})

    app = web.Application()
    app.router.add_post("/v1/completions", complete)
    app.router.add_post("/tokenize", tokenize)
    app.router.add_get("/v1/models", models)
    return app


class Routed:
    """A router before three engines, of which ``h1`` has a prompt."""

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession,
        hold: asyncio.Event,
        left: asyncio.Event,
        directory: PoolDirectory,
    ) -> None:
        self.url = url
        self.directory = directory
        self.session = session
        self.hold = hold
        self.left = left

    async def engine_of(self, prompt: object) -> str:
        """Who answers; all of the answer arrives."""
        body = {"model": "llama", "prompt": prompt, "stream": True}
        async with self.session.post(f"{self.url}/v1/completions", json=body) as answer:
            name = answer.headers[ENGINE_HEADER]
            assert await answer.text() == f"data: {name}\n\ndata: [DONE]\n\n"
            return name


@asynccontextmanager
async def routed(
    router: RouterName = "pool",
    dead: Sequence[str] = (),
    model: str | None = None,
    others: Sequence[str] = (),
) -> AsyncIterator[Routed]:
    directory = PoolDirectory()
    for other in others:
        directory.apply("h2", other, [BlocksStored((7,), None, (1,) * 16, 16)])
    texts = tuple(ord(c) for c in "a text of more than thirty-two characters")[:32]
    for first, tokens in ((0, tuple(PROMPT)), (1 << 20, texts)):
        hashes = tuple(first + number for number in range(len(tokens) // 16))
        directory.apply("h1", "llama", [BlocksStored(hashes, None, tokens, 16)])
    hold, left = asyncio.Event(), asyncio.Event()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(60))
        engines = [
            Engine(
                name,
                "http://127.0.0.1:1"
                if name in dead
                else await stack.enter_async_context(served(engine_app(name, hold, left))),
            )
            for name in NAMES
        ]
        index = await stack.enter_async_context(serving(directory))
        costs = Costs()
        placement = Placement(engines, make_router(router, costs, NAMES), costs, index, model)
        url = await stack.enter_async_context(served(Front(placement).app()))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        yield Routed(url, session, hold, left, directory)


async def test_a_request_goes_to_the_engine_that_has_its_prefix() -> None:
    async with routed() as router:
        router.hold.set()
        assert await router.engine_of(PROMPT) == "h1"
        assert await router.engine_of("a text of more than thirty-two characters") == "h1"
        async with router.session.get(f"{router.url}/v1/models") as answer:
            assert (await answer.json())["data"][0]["id"] == "llama"


async def test_where_the_index_has_several_models_the_router_names_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with routed(model="llama", others=["qwen"]) as router:
        router.hold.set()
        assert [await router.engine_of(PROMPT) for _ in range(3)] == ["h1"] * 3
        assert not caplog.records
    async with routed(others=["qwen"]) as router:
        router.hold.set()
        assert len({await router.engine_of(PROMPT) for _ in range(6)}) == 3
        [record] = caplog.records
        assert "name one of llama, qwen" in record.getMessage()


async def test_engines_judge_tokens_that_no_model_has() -> None:
    async with routed() as router:
        router.hold.set()
        assert [await router.engine_of([each]) in NAMES for each in (-1, 1 << 32)] == [True] * 2


async def test_answers_are_streamed() -> None:
    async with routed() as router:
        body = {"prompt": PROMPT, "stream": True}
        async with router.session.post(f"{router.url}/v1/completions", json=body) as answer:
            assert await answer.content.readline() == b"data: h1\n"
            router.hold.set()
            assert b"[DONE]" in await answer.read()


async def test_a_client_that_hangs_up_ends_its_request_at_the_engine() -> None:
    async with routed() as router:
        body = {"prompt": PROMPT, "stream": True}
        async with router.session.post(f"{router.url}/v1/completions", json=body) as answer:
            assert await answer.content.readline() == b"data: h1\n"
        await router.left.wait()


async def test_an_engine_that_does_not_tokenize_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("routing.front._QUICK_S", 1.0)

    async def babble(_: web.Request) -> web.StreamResponse:
        return web.json_response([1, 2])

    for tokenize in (hang, babble):
        app = web.Application()
        app.router.add_post("/tokenize", tokenize)
        async with (
            served(app) as odd,
            served(engine_app("h1", asyncio.Event(), asyncio.Event())) as h1,
        ):
            engines = [Engine("h0", odd), Engine("h1", h1)]
            placement = Placement(engines, make_router("pool", Costs(), NAMES), Costs(), None)
            front = Front(placement)
            async with served(front.app()):
                assert await front._tokens({"prompt": "a"}) == [ord("a")]


async def test_an_index_that_does_not_answer_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engines = [Engine(name, "http://127.0.0.1:1") for name in NAMES]
    router = make_router("pool", Costs(), NAMES)
    placement = Placement(engines, router, Costs(), "http://127.0.0.1:1")
    async with aiohttp.ClientSession() as session:
        for _ in range(3):
            await placement.place(session, PROMPT)
    [record] = caplog.records
    assert "placed without the index" in record.getMessage()


async def test_an_index_that_knows_no_engine_by_its_name_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    directory = PoolDirectory()
    directory.apply("h0.0", "llama", [BlocksStored((7,), None, tuple(range(16)), 16)])
    engines = [Engine(name, "http://127.0.0.1:1") for name in NAMES]
    router = make_router("pool", Costs(), NAMES)
    async with serving(directory) as index, aiohttp.ClientSession() as session:
        placement = Placement(engines, router, Costs(), index)
        for _ in range(3):
            await placement.place(session, PROMPT)
        [record] = caplog.records
        assert "the index knows no engine h0, h1, h2" in record.getMessage()
        assert "--engine h0.0=URL" in record.getMessage()


async def test_an_engine_that_died_is_replaced() -> None:
    async with routed(dead=["h1"]) as router:
        router.hold.set()
        assert await router.engine_of(PROMPT) in {"h0", "h2"}
    async with routed(dead=NAMES) as router:
        body = {"prompt": PROMPT}
        async with router.session.post(f"{router.url}/v1/completions", json=body) as answer:
            assert answer.status == 503
            assert "h0, h1, h2 answers" in (await answer.json())["error"]["message"]
        async with router.session.post(f"{router.url}/v1/completions", data=b"[") as answer:
            assert answer.status == 400


async def begin(request: web.Request) -> web.StreamResponse:
    """Send the head of an answer, and nothing of its body."""
    response = web.StreamResponse()
    await response.prepare(request)
    await asyncio.Event().wait()
    return response


@asynccontextmanager
async def before(urls: Sequence[str], first_byte_s: float) -> AsyncIterator[str]:
    """The address of a router before engines, in order of their load."""
    engines = [Engine(f"h{number}", url) for number, url in enumerate(urls)]
    names = [engine.name for engine in engines]
    placement = Placement(engines, make_router("pool", Costs(), names), Costs(), None)
    async with asyncio.timeout(60), served(Front(placement, first_byte_s).app()) as url:
        yield url


async def test_each_engine_is_tried_once_also_when_all_are_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("routing.front._QUICK_S", 0.01)
    monkeypatch.setattr("routing.engines._DOWN_S", 60.0)
    hold = asyncio.Event()
    hold.set()
    async with (
        served(engine_app("h1", hold, hold, hang)) as slow,
        before(["http://127.0.0.1:1", slow], 60) as url,
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/completions", json={"prompt": "a"}) as answer,
    ):
        assert (answer.status, answer.headers.get(ENGINE_HEADER)) == (200, "h1")


@pytest.mark.parametrize("silent", [hang, begin])
async def test_a_silent_engine_is_given_up(
    silent: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routing.front._QUICK_S", 0.5)
    app = web.Application()
    app.router.add_route("*", "/v1/{path:.*}", silent)
    well = engine_app("h1", asyncio.Event(), asyncio.Event())
    async with (
        served(app) as h0,
        served(well) as h1,
        before([h0, h1], 0.01) as url,
        aiohttp.ClientSession() as session,
    ):
        async with session.post(f"{url}/v1/completions", json={"prompt": [1]}) as answer:
            assert answer.status == 504
            assert "h0 began no answer within 0.01 s" in (await answer.json())["error"]["message"]
        async with session.get(f"{url}/v1/models") as answer:
            assert answer.headers[ENGINE_HEADER] == "h1"


async def test_a_hundred_open_answers_do_not_keep_others_waiting() -> None:
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        routed("round-robin") as router,
        aiohttp.ClientSession(connector=connector) as session,
        AsyncExitStack() as stack,
    ):
        for _ in range(101):
            request = session.post(f"{router.url}/v1/completions", json={"prompt": PROMPT[:1]})
            answer = await stack.enter_async_context(request)
            assert answer.status == 200
        router.hold.set()


async def test_routers_to_compare_with() -> None:
    async with routed("round-robin") as router:
        router.hold.set()
        assert [await router.engine_of(PROMPT) for _ in range(4)] == ["h0", "h1", "h2", "h0"]
    async with routed("prefix-hash") as router:
        router.hold.set()
        assert len({await router.engine_of([*PROMPT[:512], each]) for each in range(8)}) == 1
        assert len({await router.engine_of([each]) for each in range(16)}) > 1


@pytest.mark.parametrize("name", ROUTERS)
def test_an_engine_that_is_down_gets_nothing(name: RouterName) -> None:
    router = make_router(name, Costs(), NAMES)
    location = Location(16, 16, tuple(Holding(each, 16, 16, 0, 1) for each in NAMES))
    prompts = [Prompt([each] * 20, location) for each in range(30)]
    assert {router.choose(each, [0.0, float("inf"), 0.0]) for each in prompts} <= {0, 2}


def test_idle_engines_share_new_prompts_and_keep_their_own() -> None:
    router = make_router("pool", Costs(), NAMES)
    nothing = Location(0, 16, tuple(Holding(each, 0, 0, 0, 0) for each in NAMES))
    chosen = [router.choose(Prompt(PROMPT, nothing), [0.0] * 3) for _ in range(9)]
    assert [chosen.count(each) for each in range(3)] == [3, 3, 3]
    there = Location(
        2048,
        16,
        tuple(Holding(each, n, n, 0, 1) for each, n in zip(NAMES, (0, 2048, 0), strict=True)),
    )
    assert router.choose(Prompt(PROMPT, there), [0.0] * 3) == 1
    assert router.choose(Prompt(PROMPT, there), [0.0, 60.0, 0.0]) != 1


def test_an_engine_that_computes_much_keeps_its_blocks_from_other_prompts() -> None:
    router = make_router("pool", Costs(), NAMES)
    nothing = Location(0, 16, tuple(Holding(each, 0, 0, 0, 0) for each in NAMES))
    for _ in range(3):
        assert router.choose(Prompt(PROMPT, nothing), [0.0, 60.0, 60.0]) == 0
    beginning = Location(
        64,
        16,
        tuple(Holding(each, n, n, 0, 1) for each, n in zip(NAMES, (64, 0, 0), strict=True)),
    )
    assert router.choose(Prompt(PROMPT, beginning), [0.0] * 3) == 1
    conversation = Location(
        1984,
        16,
        tuple(Holding(each, n, n, 0, 1) for each, n in zip(NAMES, (1984, 0, 0), strict=True)),
    )
    assert router.choose(Prompt(PROMPT, conversation), [0.0] * 3) == 0


async def answer_garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"no answer of HTTP\r\n\r\n")
    writer.close()


async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-")
    writer.close()


@pytest.mark.parametrize(
    ("odd_answer", "reason"),
    [(answer_garbage, "what it sends is not HTTP"), (break_off, "it closes the connection")],
)
async def test_an_engine_that_speaks_no_http_is_replaced(
    odd_answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = await asyncio.start_server(odd_answer, "127.0.0.1", 0)
    odd = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    hold = asyncio.Event()
    hold.set()
    async with (
        server,
        served(engine_app("h1", hold, hold)) as well,
        before([odd, well], 60) as url,
        aiohttp.ClientSession() as session,
    ):
        async with session.post(f"{url}/v1/completions", json={"prompt": [1]}) as answer:
            assert (answer.status, answer.headers.get(ENGINE_HEADER)) == (200, "h1")
        async with session.get(f"{url}/v1/models") as answer:
            assert answer.headers[ENGINE_HEADER] == "h1"
    [record] = caplog.records
    assert f"engine h0 does not answer: {reason}" in record.getMessage()


async def test_an_answer_that_breaks_off_is_incomplete_for_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def die(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"data: 1\n\n")
        assert request.transport is not None
        request.transport.close()
        return response

    app = web.Application()
    app.router.add_post("/v1/completions", die)
    async with (
        served(app) as engine,
        before([engine], 60) as url,
        aiohttp.ClientSession() as session,
    ):
        for _ in range(2):
            async with session.post(f"{url}/v1/completions", json={"prompt": [1]}) as answer:
                assert await answer.content.readline() == b"data: 1\n"
                with pytest.raises(aiohttp.ClientPayloadError):
                    await answer.read()
    [record] = caplog.records  # logged once, although answers begin
    assert record.exc_info is None
    assert "engine h0 does not answer" in record.getMessage()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("completions", b'{"prompt": ' + b"[" * 100_000, 400),
        ("completions", b" " * ((64 << 20) + 1), 413),
        ("embeddings", b"{}", 404),
    ],
)
async def test_refusals_have_the_form_of_openais_errors(
    path: str, body: bytes, status: int
) -> None:
    async with (
        before(["http://127.0.0.1:1"], 60) as url,
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/{path}", data=body) as answer,
    ):
        assert answer.status == status
        assert (await answer.json())["error"]["message"]


async def test_engines_receive_what_clients_sent_and_nothing_else() -> None:
    received: list[tuple[str, bytes, dict[str, str]]] = []

    async def note(request: web.Request) -> web.StreamResponse:
        received.append((request.path, await request.read(), dict(request.headers)))
        return web.json_response({"tokens": [1]})

    app = web.Application()
    app.router.add_post("/{path:.*}", note)
    messages = [{"role": "user", "content": "a"}]
    request = {"model": "llama", "messages": messages, "tools": [], "temperature": 1}
    document = json.dumps(request).encode()
    skipped = ("Accept-Encoding", "Content-Type", "User-Agent")
    async with (
        served(app) as engine,
        before([engine], 60) as url,
        aiohttp.ClientSession(skip_auto_headers=skipped) as session,
    ):
        packed = gzip.compress(document)
        headers = {"Content-Encoding": "gzip", "Authorization": "Bearer key"}
        async with session.post(
            f"{url}/v1/chat/completions", data=packed, headers=headers
        ) as answer:
            assert answer.status == 200
    [(asked, question, _), (path, body, there)] = received
    assert (asked, path, body) == ("/tokenize", "/v1/chat/completions", document)
    assert json.loads(question) == {"model": "llama", "messages": messages, "tools": []}
    assert there["Authorization"] == "Bearer key"
    assert not {"Content-Encoding", *skipped} & set(there)


async def test_a_salted_prompt_is_looked_up_with_its_salt() -> None:
    async with routed() as router:
        router.hold.set()
        body = {"prompt": PROMPT, "cache_salt": "acme"}
        names = set()
        for _ in range(3):
            async with router.session.post(f"{router.url}/v1/completions", json=body) as answer:
                names.add(answer.headers[ENGINE_HEADER])
        assert names == set(NAMES)


ADAPTED = tuple(range(5000, 7048))
"""A prompt of which h1 has the base model's blocks, h2 an adapter's, and h0 those with a salt."""


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"model": "llama"}, "h1"),
        ({"model": "tuned"}, "h2"),
        ({"model": "tuned", "cache_salt": "acme"}, "h0"),
        ({"model": "llama:tuned"}, "h2"),
        ({"model": "llama", "lora_path": "tuned"}, "h2"),
        ({"model": "llama", "lora_path": ["tuned"]}, "h1"),
        ({}, "h1"),
    ],
)
async def test_a_prompt_for_an_adapter_is_looked_up_with_the_adapter(
    fields: dict[str, object], expected: str
) -> None:
    async with routed() as router:
        router.hold.set()
        for first, name, lora, salt in (
            (1000, "h1", None, None), (2000, "h2", "tuned", None), (3000, "h0", "tuned", "acme"),
        ):  # fmt: skip
            hashes = tuple(range(first, first + 128))
            extra = ((salt,),) + (None,) * 127 if salt else ()
            stored = BlocksStored(hashes, None, ADAPTED, 16, extra=extra, lora=lora)
            router.directory.apply(name, "llama", [stored])
        body = {"prompt": ADAPTED, **fields}
        for _ in range(3):
            async with router.session.post(f"{router.url}/v1/completions", json=body) as answer:
                assert answer.headers[ENGINE_HEADER] == expected


async def test_an_adapter_that_is_loaded_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("routing.adapters._REFRESH_S", 0.0)
    cards = [{"id": "llama"}]

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"data": cards})

    app = web.Application()
    app.router.add_get("/v1/models", models)
    async with served(app) as url, aiohttp.ClientSession() as session:
        adapters = Adapters([Engine("h0", "http://127.0.0.1:1"), Engine("h1", url)])
        assert await adapters.of_request(session, {"model": "tuned"}) is None
        cards.append({"id": "tuned", "parent": "llama"})
        assert await adapters.of_request(session, {"model": "tuned"}) == "tuned"
        assert await adapters.of_request(session, {"model": 7}) is None


H0 = "h0=http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--engine", H0, "--port", "99999"], "expected a port from 0 to 65535, found '99999'"),
        (["--engine", H0, "--port", "-1"], "expected a port from 0 to 65535, found '-1'"),
        (["--engine", H0, "--engine", "h0=http://a"], "--engine names 'h0' twice"),
        (["--engine", "=http://a"], "expected NAME=URL"),
        (["--engine", "h0"], "expected http://HOST:PORT"),
        (["--engine", "h0=http://"], "expected http://HOST:PORT"),
        (["--engine", "h0=http://a:99999"], "expected http://HOST:PORT"),
        (["--engine", f"{H0}/v1"], "expected http://HOST:PORT, without /v1"),
        (["--engine", H0, "--index", "a:1"], "expected http://HOST:PORT"),
        (["--engine", H0, "--gbit", "-1"], "expected a number above 0, found '-1'"),
        (["--engine", H0, "--first-byte-s", "nan"], "expected a number above 0, found 'nan'"),
        (["--engine", H0, "--token-bytes", "much"], "expected a size"),
    ],
)
def test_wrong_options_are_named(
    arguments: list[str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["engine_router.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        engine_router.main()
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err


def test_a_port_in_use_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        monkeypatch.setattr(sys, "argv", ["engine_router.py", "--engine", H0, "--port", port])
        with pytest.raises(SystemExit):
            engine_router.main()
    assert f"cannot listen on port {port}: Address already in use" in capsys.readouterr().err
