"""Look-ups over HTTP: follows members, answers where prefixes are, publishes the pool's stream."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Self

import numpy as np
import zmq.asyncio
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from innet.errors import KVError, PlanError
from innet.http_server import serving_http
from innet.kv.events.follower import Stream, StreamFollower
from innet.kv.events.index import Location, PrefixIndex
from innet.kv.events.pool_stream import PoolStream
from innet.kv.events.wire import Event
from innet.kv.hash_chain import TokenIds
from innet.topology import Topology
from innet.topology.routes import Routes
from innet.validation_messages import first_message

Distance = Callable[[str, str], int | None]
"""Links between two hosts; ``None``: not known."""

_MOST_BODY_BYTES: Final = 64 << 20
_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")


class LocateRequest(BaseModel):
    """Prompts to look up."""

    model_config = ConfigDict(extra="forbid", strict=True)

    prompts: list[list[int]] = Field(default=[], description="Token ids of each prompt")
    packed: list[str] = Field(
        default=[],
        description="More prompts, each in base64: token ids of 32 bits, little-endian. They take "
        "less processor time",
    )
    model: str | None = Field(
        default=None, description="As in topics; may be omitted if there is one"
    )
    members: list[str] | None = Field(
        default=None,
        description="Candidates; by default all members that have a block of the prompt",
    )
    near: str | None = Field(default=None, description="Host from which distances are counted")
    salt: str = Field(default="", description="Cache salt of the prompts")
    lora: str | None = Field(default=None, description="Name of the adapter")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not (self.prompts or self.packed):
            raise ValueError("expected `prompts` or `packed` with at least one prompt")
        return self


class MemberHolding(BaseModel):
    """What a member has of a prompt."""

    member: str
    tokens: int = Field(description="Longest prefix that it has, on any medium")
    memory_tokens: int = Field(description="The same in memory, its accelerator's included")
    gpu_tokens: int = Field(description="The same on its accelerator")
    blocks: int = Field(description="Blocks that it has of the prefix of all members together")
    distance: int | None = Field(description="Links from the host `near`; null: not known")


class PromptLocation(BaseModel):
    """Where a prompt's prefix is."""

    tokens: int = Field(description="Longest prefix of which each block has a holder")
    block_tokens: int = Field(description="Tokens of a block; 0: no block is known")
    holdings: list[MemberHolding] = Field(description="Longest prefix first, or as in `members`")


class LocateResponse(BaseModel):
    """The answer for each prompt, in their order: `prompts`, then `packed`."""

    locations: list[PromptLocation]


def hops(topology: Topology) -> Distance:
    """Distances in links of a topology."""
    routes = Routes(topology)

    def distance(near: str, to: str) -> int | None:
        try:
            return len(routes.path(near, to)) - 1
        except (PlanError, KeyError):  # a member that is no host of it
            return None

    return distance


class PoolDirectory:
    """The blocks of all members, kept up to date.

    Attributes:
        index: of their blocks.
        pool: the stream of the whole pool, if it is published: otherwise its events would pile up.
    """

    def __init__(
        self, distance: Distance = lambda _near, _to: None, pool: PoolStream | None = None
    ) -> None:
        """``distance``: between hosts."""
        self.index = PrefixIndex()
        self.pool = pool
        self._distance = distance

    def apply(self, member: str, model: str, events: list[Event]) -> None:
        """Apply events of a member."""
        changes = self.index.apply(member, model, events)
        if self.pool is not None:
            self.pool.apply(model, changes)

    def locate(self, request: LocateRequest) -> LocateResponse:
        """Answer a request.

        Raises:
            KVError: several models are followed, and the request names none; or a prompt's tokens
                are invalid.
        """
        model = self._model(request.model)
        located = (
            self.index.locate(
                model, tokens, members=request.members, salt=request.salt, lora=request.lora
            )
            for tokens in (*request.prompts, *map(_unpacked, request.packed))
        )
        return LocateResponse(locations=[self._shown(each, request.near) for each in located])

    def _model(self, name: str | None) -> str:
        models = self.index.models
        if name is not None:
            return name
        if len(models) > 1:
            raise KVError(
                f"there are blocks of several models: name one of {', '.join(sorted(models))}"
            )
        return models[0] if models else ""

    def _shown(self, location: Location, near: str | None) -> PromptLocation:
        return PromptLocation(
            tokens=location.tokens,
            block_tokens=location.block_tokens,
            holdings=[
                MemberHolding(
                    member=each.member,
                    tokens=each.tokens,
                    memory_tokens=each.memory_tokens,
                    gpu_tokens=each.gpu_tokens,
                    blocks=each.blocks,
                    distance=None if near is None else self._distance(near, each.member),
                )
                for each in location.holdings
            ],
        )


def _unpacked(text: str) -> TokenIds:
    try:
        return np.frombuffer(base64.b64decode(text, validate=True), "<u4")
    except ValueError as error:
        raise KVError(
            f"invalid prompt in `packed`: {error}. Expected base64 of token ids, each of 32 bits"
        ) from error


@asynccontextmanager
async def following(directory: PoolDirectory, streams: Sequence[Stream]) -> AsyncIterator[None]:
    """Follow streams until the block ends; it begins when each has been replayed once.

    Raises:
        KVError: a stream's address cannot be used.
    """
    context = zmq.asyncio.Context()
    followers = [StreamFollower(each, context, directory.apply) for each in streams]
    tasks = [asyncio.ensure_future(follower.run()) for follower in followers]
    replayed = asyncio.gather(*(follower.caught_up.wait() for follower in followers))
    works: list[asyncio.Future[Any]] = [replayed, *tasks]
    try:
        await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():  # it follows until it is cancelled, so it has failed
                task.result()
        yield
    finally:
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        context.destroy(linger=0)


@asynccontextmanager
async def serving(directory: PoolDirectory, port: int = 0) -> AsyncIterator[str]:
    """Answer over HTTP on loopback until the block ends, and yield the address.

    Raises:
        KVError: the port cannot be used.
    """
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise KVError(
            f"look-ups cannot be served on port {port}: {error.strerror}. Give another --port; "
            "0 is a free one"
        ) from error
    async with serving_http(make_app(directory), listener):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def make_app(directory: PoolDirectory) -> Starlette:
    """The HTTP interface; requests under other names than loopback's are refused."""

    async def locate(request: Request) -> Response:
        try:
            body = await _body(request)
            found = directory.locate(LocateRequest.model_validate_json(body))
            return Response(found.model_dump_json(), media_type="application/json")
        except ValidationError as error:
            return JSONResponse({"error": first_message(error)}, 400)
        except KVError as error:
            return JSONResponse({"error": str(error)}, 400)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it

    async def members(_: Request) -> Response:
        index = directory.index
        blocks = {member: index.blocks(member) for member in index.members}
        return JSONResponse({"models": index.models, "blocks": blocks})

    async def openapi(_: Request) -> Response:
        return JSONResponse(openapi_document())

    return Starlette(
        routes=[
            Route("/v1/locate", locate, methods=["POST"]),
            Route("/v1/members", members),
            Route("/openapi.json", openapi),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=_HOSTS)],
    )


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BODY_BYTES:
            raise KVError(
                f"the request is larger than {_MOST_BODY_BYTES} bytes: send fewer prompts"
            )
    return bytes(body)


def openapi_document() -> dict[str, Any]:
    """The interface, in OpenAPI 3.1."""
    schemas: dict[str, Any] = {}
    for model in (LocateRequest, LocateResponse):
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema

    def of(name: str) -> dict[str, Any]:
        return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}

    members = {
        "type": "object",
        "properties": {
            "models": {"type": "array", "items": {"type": "string"}},
            "blocks": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
    }
    schemas["Members"] = members
    error = {"type": "object", "properties": {"error": {"type": "string"}}}
    schemas["Error"] = error
    return {
        "openapi": "3.1.0",
        "info": {"title": "innet: where prefixes are", "version": "1"},
        "paths": {
            "/v1/locate": {
                "post": {
                    "summary": "The members that have the longest prefixes of prompts",
                    "requestBody": {"required": True, "content": of("LocateRequest")},
                    "responses": {
                        "200": {"description": "Found", "content": of("LocateResponse")},
                        "400": {"description": "Invalid request", "content": of("Error")},
                    },
                }
            },
            "/v1/members": {
                "get": {
                    "summary": "The models, and how many blocks each member has",
                    "responses": {"200": {"description": "Now", "content": of("Members")}},
                }
            },
        },
        "components": {"schemas": schemas},
    }
