"""The router's HTTP side: requests of OpenAI's interface, passed on to engines as they are."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import zlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from innet.http_requests import LOOPBACK_NAMES, is_from_here
from routing.adapters import Adapters
from routing.engines import BlockScope, Engine, Placement
from routing.site import Connections

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

ENGINE_HEADER = "X-Innet-Engine"
_MOST_BODY_BYTES = 64 << 20
_MOST_VALUES = 4 << 20
"""Of a body: an empty list takes thirty times the memory of its text."""
_PAST_IDS = 1 << 63
_ENCODINGS = ("identity", "gzip", "deflate")
_CONNECT_S = 5.0
FIRST_BYTE_S = 600.0
"""An answer that is not streamed begins when all of it is computed."""
_IDLE_S = 2.0
"""Connections that are idle for longer are not used again: engines close theirs after 5 s."""
_QUICK_S = 5.0
"""An engine that takes longer to tokenize a prompt, or to list its models, hangs: others are
asked."""
_JSON = "application/json"
_HOP_BY_HOP = frozenset(
    {"connection", "content-length", "host", "keep-alive", "transfer-encoding", "upgrade"}
)
_OF_THE_BODY = frozenset({"content-encoding", "expect"})
"""Headers of a request that reading its body has served: the body is decompressed."""
_ADDED_HEADERS = ("Accept-Encoding", "Content-Type", "User-Agent")
"""That the HTTP client would send in the name of a client that did not: an answer could be
compressed for one that does not decompress."""
_OF_TOKENS = (
    "add_generation_prompt",
    "add_special_tokens",
    "chat_template",
    "chat_template_kwargs",
    "continue_final_message",
    "messages",
    "mm_processor_kwargs",
    "model",
    "prompt",
    "tools",
)
"""Keys of a request that decide its prompt's tokens, as vLLM's ``/tokenize`` takes them."""


class Front:
    """Passes requests on, and their answers back as they arrive."""

    def __init__(
        self,
        placement: Placement,
        first_byte_s: float = FIRST_BYTE_S,
        hosts: Iterable[str] = (),
        connections: Connections | None = None,
    ) -> None:
        """
        Args:
            placement: chooses engines.
            first_byte_s: limit until the answer of an engine begins.
            hosts: names of the router in requests, beside those of loopback.
            connections: of clients.
        """
        self._placement = placement
        self._names = LOOPBACK_NAMES | {host.lower() for host in hosts}
        self._connections = connections or Connections()
        self._adapters = Adapters(placement.engines)
        self._first_byte_s = first_byte_s
        self._numbers = itertools.count()

    def app(self) -> web.Application:
        """The interface."""
        app = web.Application(
            client_max_size=_MOST_BODY_BYTES,
            middlewares=[_errors_in_json, self._for_own_names, self._while_served],
        )
        app.cleanup_ctx.append(self._with_session)
        app.router.add_post("/v1/completions", self._complete)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._models)
        return app

    @web.middleware
    async def _for_own_names(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if is_from_here(request.host, request.headers.get("Origin"), self._names):
            return await handler(request)
        message = (
            f"the request is for {request.host!r}, or comes from a page of another server; "
            f"expected one of {', '.join(sorted(self._names))}. Start the router with --host NAME "
            "to allow another"
        )
        raise web.HTTPMisdirectedRequest(text=_error(message), content_type=_JSON)

    @web.middleware
    async def _while_served(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Read the body; from then on the connection is not closed for others."""
        try:
            async with asyncio.timeout(self._connections.client_s):
                await request.read()
        except TimeoutError:
            raise web.HTTPRequestTimeout(text=_error("the body did not come")) from None
        except (web.RequestPayloadError, HttpProcessingError, zlib.error) as error:
            encoding = request.headers.get("Content-Encoding", "")
            message = f"the body is not {encoding or 'what its head says'}: {error}"
            raise web.HTTPBadRequest(text=_error(message), content_type=_JSON) from None
        transport = request.transport
        self._connections.serve(transport)
        try:
            return await handler(request)
        finally:
            if transport is not None and not transport.is_closing():
                self._connections.begin(transport)

    async def _with_session(self, app: web.Application) -> Any:
        # Requests queue at engines, not here.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
        async with aiohttp.ClientSession(
            connector=connector,
            timeout=timeout,
            auto_decompress=False,
            skip_auto_headers=_ADDED_HEADERS,
        ) as session:
            self._session = session
            yield

    async def _models(self, request: web.Request) -> web.StreamResponse:
        for engine in self._placement.engines:
            try:
                begun = await self._begun(request, engine, b"", _QUICK_S)
            except TimeoutError:
                continue
            if begun is not None:
                return await _pass_on(request, engine, *begun)
        raise self._nobody()

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in _ENCODINGS:
            message = f"a body in {encoding[:100]!r} is not read; send it in one of {_ENCODINGS}"
            raise web.HTTPUnsupportedMediaType(text=_error(message), content_type=_JSON)
        document = _document(body)
        tokens = await self._tokens(document)
        salt = document.get("cache_salt")
        scope = BlockScope(
            salt if isinstance(salt, str) else "",
            await self._adapters.of_request(self._session, document),
        )
        tried: set[Engine] = set()
        while len(tried) < len(self._placement.engines):
            engine, work_s = await self._placement.place(self._session, tokens, tried, scope)
            tried.add(engine)
            number = next(self._numbers)
            engine.work_s[number] = work_s
            try:
                begun = await self._begun(request, engine, body, self._first_byte_s)
            except TimeoutError:
                raise self._silent(engine) from None
            finally:
                del engine.work_s[number]  # the first token is there, or never comes
            if begun is not None:
                return await _pass_on(request, engine, *begun)
        raise self._nobody()

    def _silent(self, engine: Engine) -> web.HTTPGatewayTimeout:
        message = (
            f"engine {engine.name} began no answer within {self._first_byte_s:g} s: see whether it "
            "hangs, stream long answers, or give the router a longer --first-byte-s"
        )
        return web.HTTPGatewayTimeout(text=_error(message), content_type=_JSON)

    def _nobody(self) -> web.HTTPServiceUnavailable:
        names = ", ".join(engine.name for engine in self._placement.engines)
        message = f"none of the engines {names} answers: see whether they run"
        return web.HTTPServiceUnavailable(text=_error(message), content_type=_JSON)

    async def _tokens(self, document: dict[str, Any]) -> list[int]:
        """The prompt's token ids, from an engine's ``/tokenize`` where they are not given."""
        prompt = document.get("prompt")
        if isinstance(prompt, list) and all(type(each) is int for each in prompt):
            if not _are_ids(prompt):
                message = "a token id of the prompt has more than 64 bits: send ids of the model"
                raise web.HTTPBadRequest(text=_error(message), content_type=_JSON)
            return prompt
        question = {key: document[key] for key in _OF_TOKENS if key in document}
        for engine in self._placement.engines:
            if engine.is_down:
                continue
            try:
                url = f"{engine.url}/tokenize"
                timeout = aiohttp.ClientTimeout(total=_QUICK_S)
                async with self._session.post(url, json=question, timeout=timeout) as answer:
                    found = (await answer.json()).get("tokens", []) if answer.ok else []
                    tokens = [int(each) for each in found]
                    return tokens if _are_ids(tokens) else []
            except (aiohttp.ClientConnectionError, TimeoutError) as error:
                engine.fail(error)
            except (aiohttp.ClientError, ArithmeticError, AttributeError, TypeError, ValueError):
                continue  # no engine's answer
        return []

    async def _begun(
        self, request: web.Request, engine: Engine, body: bytes, limit_s: float
    ) -> tuple[aiohttp.ClientResponse, bytes] | None:
        """The engine's answer and the first of its bytes; ``None``: it gives none.

        Raises:
            TimeoutError: it can be reached, and is silent.
        """
        left_out = _HOP_BY_HOP | _OF_THE_BODY
        headers = {k: v for k, v in request.headers.items() if k.lower() not in left_out}
        url = f"{engine.url}{request.path_qs}"
        try:
            async with asyncio.timeout(limit_s):
                answer = await self._session.request(
                    request.method, url, data=body, headers=headers, allow_redirects=False
                )
                try:
                    return answer, await answer.content.readany()
                except BaseException:
                    answer.close()
                    raise
        except aiohttp.ClientError as error:
            engine.fail(error)
            return None
        except TimeoutError as error:
            engine.fail(error)
            raise


async def _pass_on(
    request: web.Request, engine: Engine, answer: aiohttp.ClientResponse, first: bytes
) -> web.StreamResponse:
    """Answers the client with what an engine answers, as it arrives."""
    async with answer:
        passed = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP_BY_HOP}
        response = web.StreamResponse(status=answer.status, headers=passed)
        response.headers[ENGINE_HEADER] = engine.name
        await response.prepare(request)
        chunk = first
        with contextlib.suppress(ConnectionResetError):  # the client has hung up
            while chunk:
                await response.write(chunk)
                try:
                    chunk = await answer.content.readany()
                except aiohttp.ClientError as error:
                    engine.fail(error)
                    _cut(request)
                    return response
            engine.failure = ""
        return response


def _cut(request: web.Request) -> None:
    """Close the client's connection before the answer's end, so that it counts as incomplete."""
    if request.transport is not None:
        request.transport.close()


def _document(body: bytes) -> dict[str, Any]:
    """The JSON object in a body."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") > _MOST_VALUES:
        message = f"the body has more than {_MOST_VALUES} values: send a shorter prompt"
        raise web.HTTPRequestEntityTooLarge(
            _MOST_BODY_BYTES, len(body), text=_error(message), content_type=_JSON
        )
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        message = "the body is no JSON object: send what OpenAI's interface takes"
        raise web.HTTPBadRequest(text=_error(message), content_type=_JSON)
    return document


def _are_ids(tokens: Sequence[int]) -> bool:
    return not tokens or (min(tokens) >= -_PAST_IDS and max(tokens) < _PAST_IDS)


@web.middleware
async def _errors_in_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The HTTP server's own refusals, such as of paths and sizes, in the form of the others."""
    try:
        return await handler(request)
    except web.HTTPException as refusal:
        if refusal.content_type != _JSON:
            refusal.text = _error(refusal.text or refusal.reason)
            refusal.content_type = _JSON
        raise


def _error(message: str) -> str:
    """As OpenAI's interface reports errors."""
    return json.dumps({"error": {"message": message, "type": "router_error"}})
