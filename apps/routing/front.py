"""The router's HTTP side: requests of OpenAI's interface, passed on to engines as they are."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import aiohttp
from aiohttp import web

from routing.engines import Engine, Placement

ENGINE_HEADER = "X-Innet-Engine"
_MOST_BODY_BYTES = 64 << 20
_CONNECT_S = 5.0
_TOKENIZE = aiohttp.ClientTimeout(total=5.0)
"""An engine that takes longer to tokenize a prompt hangs: others are asked."""
_JSON = "application/json"
_HOP_BY_HOP = frozenset(
    {"connection", "content-length", "host", "keep-alive", "transfer-encoding", "upgrade"}
)


class Front:
    """Passes requests on, and their answers back as they arrive."""

    def __init__(self, placement: Placement) -> None:
        """``placement`` chooses engines."""
        self._placement = placement
        self._numbers = itertools.count()

    def app(self) -> web.Application:
        """The interface."""
        app = web.Application(client_max_size=_MOST_BODY_BYTES)
        app.cleanup_ctx.append(self._with_session)
        app.router.add_post("/v1/completions", self._complete)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._models)
        return app

    async def _with_session(self, app: web.Application) -> Any:
        timeout = aiohttp.ClientTimeout(total=None, connect=_CONNECT_S)
        async with aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session:
            self._session = session
            yield

    async def _models(self, request: web.Request) -> web.StreamResponse:
        for engine in self._placement.engines:
            answer = await self._forwarded(request, engine, b"", None)
            if answer is not None:
                return answer
        raise self._nobody()

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        try:
            document = json.loads(body)
            tokens = await self._tokens(document)
        except (ValueError, AttributeError):
            message = "the body is no JSON object: send what OpenAI's interface takes"
            raise web.HTTPBadRequest(text=_error(message), content_type=_JSON) from None
        for _ in self._placement.engines:
            engine, work_s = await self._placement.place(self._session, tokens)
            number = next(self._numbers)
            engine.work_s[number] = work_s
            try:
                answer = await self._forwarded(request, engine, body, number)
            finally:
                engine.work_s.pop(number, None)
            if answer is not None:
                return answer
        raise self._nobody()

    def _nobody(self) -> web.HTTPServiceUnavailable:
        names = ", ".join(engine.name for engine in self._placement.engines)
        message = f"none of the engines {names} can be reached: see whether they run"
        return web.HTTPServiceUnavailable(text=_error(message), content_type=_JSON)

    async def _tokens(self, document: dict[str, Any]) -> list[int]:
        """The prompt's token ids, from an engine's ``/tokenize`` where they are not given."""
        prompt = document.get("prompt")
        if isinstance(prompt, list) and all(type(each) is int for each in prompt):
            return prompt
        keys = ("model", "prompt", "messages")
        question = {key: document[key] for key in keys if key in document}
        for engine in self._placement.engines:
            if math.isinf(engine.wait_s):
                continue
            try:
                url = f"{engine.url}/tokenize"
                async with self._session.post(url, json=question, timeout=_TOKENIZE) as answer:
                    found = (await answer.json()).get("tokens", []) if answer.ok else []
                    return [int(each) for each in found]
            except (aiohttp.ClientConnectionError, TimeoutError):
                engine.fail()
            except (aiohttp.ClientError, AttributeError, TypeError, ValueError):
                continue  # no engine's answer
        return []

    async def _forwarded(
        self, request: web.Request, engine: Engine, body: bytes, number: int | None
    ) -> web.StreamResponse | None:
        """The engine's answer; ``None``: it cannot be reached, and nothing was answered."""
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP_BY_HOP}
        url = f"{engine.url}{request.path_qs}"
        try:
            answer = await self._session.request(request.method, url, data=body, headers=headers)
        except (aiohttp.ClientConnectionError, TimeoutError):
            engine.fail()
            return None
        async with answer:
            passed = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=passed)
            response.headers[ENGINE_HEADER] = engine.name
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                if number is not None:
                    engine.work_s.pop(number, None)  # the first token is there
                await response.write(chunk)
            await response.write_eof()
            return response


def _error(message: str) -> str:
    """As OpenAI's interface reports errors."""
    return json.dumps({"error": {"message": message, "type": "router_error"}})
