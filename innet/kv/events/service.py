"""Look-ups over HTTP: follows members, answers where prefixes are, publishes the pool's stream."""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import zmq.asyncio
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.applications import Starlette
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from innet.errors import KVError, PlanError
from innet.http_server import serving_http
from innet.kv.events.follower import Stream, StreamFollower, StreamStatus
from innet.kv.events.index import Location, PrefixIndex
from innet.kv.events.index_metrics import METRICS_TYPE, index_metrics
from innet.kv.events.pool_stream import PoolStream
from innet.kv.events.wire import Event
from innet.kv.hash_chain import TokenIds
from innet.topology import Topology
from innet.topology.routes import Routes

Distance = Callable[[str, str], int | None]
"""Links between two hosts; ``None``: not known."""

_MOST_BODY_BYTES: Final = 64 << 20
_MOST_BODIES_BYTES: Final = 256 << 20
"""Of all requests that have not arrived completely; beyond it, those above a MiB are refused."""
_SMALL_BODY_BYTES: Final = 1 << 20
_MOST_HOLDINGS: Final = 1 << 16
"""Prompts times candidates of a request: they bound its answer."""
_BODY_S: Final = 30.0
"""A request that is not complete by then is refused, so that it holds no connection."""
_JSON: Final = "application/json"
_MSGPACK: Final = "application/msgpack"
_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")
_DISCOVERY_S: Final = 1.0
_DISTANCES: Final = 1 << 16
"""Pairs of hosts whose distance is kept."""

_log = logging.getLogger(__name__)

TokenId = Annotated[int, Meta(ge=0, le=(1 << 32) - 1)]


class LocateRequest(Struct, forbid_unknown_fields=True):
    """Prompts to look up: `prompts`, `packed`, or both."""

    prompts: Annotated[list[list[TokenId]], Meta(description="Token ids of each prompt")] | (
        UnsetType
    ) = UNSET
    packed: (
        Annotated[
            list[bytes],
            Meta(
                description="More prompts: token ids of 32 bits, little-endian, in JSON as base64. "
                "They take less processor time"
            ),
        ]
        | UnsetType
    ) = UNSET
    model: Annotated[
        str | None, Meta(description="As in topics; may be omitted if there is one")
    ] = None
    members: Annotated[
        list[str] | None,
        Meta(
            description="Candidates; by default all members that have a block of the prompt",
        ),
    ] = None
    near: Annotated[str | None, Meta(description="Host from which distances are counted")] = None
    salt: Annotated[str, Meta(description="Cache salt of the prompts")] = ""
    lora: Annotated[str | None, Meta(description="Name of the adapter")] = None


class MemberHolding(Struct):
    """What a member has of a prompt."""

    member: str
    tokens: Annotated[int, Meta(description="Longest prefix that it has, on any medium")]
    memory_tokens: Annotated[
        int, Meta(description="The same in memory, its accelerator's included")
    ]
    gpu_tokens: Annotated[int, Meta(description="The same on its accelerator")]
    blocks: Annotated[
        int, Meta(description="Blocks that it has of the prefix of all members together")
    ]
    distance: Annotated[int | None, Meta(description="Links from the host `near`; null: not known")]


class PromptLocation(Struct):
    """Where a prompt's prefix is."""

    tokens: Annotated[int, Meta(description="Longest prefix of which each block has a holder")]
    block_tokens: Annotated[int, Meta(description="Tokens of a block; 0: no block is known")]
    holdings: Annotated[
        list[MemberHolding], Meta(description="Longest prefix first, or as in `members`")
    ]


class LocateResponse(Struct):
    """The answer for each prompt, in their order: `prompts`, then `packed`."""

    locations: list[PromptLocation]


class Members(Struct):
    """The models, how many blocks each member has, and what arrived of each stream."""

    models: list[str]
    blocks: dict[str, int]
    streams: list[StreamStatus]


class Error(Struct):
    """What is wrong with a request."""

    error: str


def hops(topology: Topology) -> Distance:
    """Distances in links of a topology; from a host that it lacks, they raise a KVError."""
    routes = Routes(topology)

    @functools.lru_cache(_DISTANCES)
    def distance(near: str, to: str) -> int | None:
        if near not in topology.nodes:
            raise KVError(
                f"distances cannot be counted from {near!r}: the network has no such host. Name "
                f"one of its hosts, such as {topology.hosts[0]}"
            )
        try:
            return len(routes.path(near, to)) - 1
        except (PlanError, KeyError):  # a member that is no host of it
            return None

    return distance


class PoolDirectory:
    """The blocks of all members, kept up to date.

    Attributes:
        index: of their blocks.
        followers: of the streams.
        pool: the stream of the whole pool; ``None``: it is not published, and would pile up.
    """

    def __init__(
        self, distance: Distance = lambda _near, _to: None, pool: PoolStream | None = None
    ) -> None:
        """``distance``: between hosts; raises KVError if the first one is not in the network."""
        self.index = PrefixIndex()
        self.followers: list[StreamFollower] = []
        self.pool = pool
        self._distance = distance

    def apply(self, member: str, model: str, events: list[Event]) -> None:
        """Apply events of a member."""
        changes = self.index.apply(member, model, events)
        if self.pool is not None:
            self.pool.apply(model, changes)

    def members(self) -> Members:
        """What is known of members and streams."""
        blocks = {member: self.index.blocks(member) for member in self.index.members}
        return Members(self.index.models, blocks, [each.status for each in self.followers])

    def locate(self, request: LocateRequest) -> LocateResponse:
        """Answer a request.

        Raises:
            KVError: the request has no prompts or too many, its model or the host ``near`` is not
                known, or a prompt's tokens are invalid.
        """
        model = self.model_of(request)
        prompts, packed = request.prompts or [], request.packed or []
        if request.prompts is request.packed is UNSET:
            raise KVError("the request has no prompts: give `prompts` or `packed`")
        count, members = len(prompts) + len(packed), len(request.members or self.index.members)
        if members > _MOST_HOLDINGS:
            raise KVError(f"the request has {members} members: name at most {_MOST_HOLDINGS}")
        if count * max(1, members) > _MOST_HOLDINGS:
            raise KVError(
                f"the request has {count} prompts for {members} members: send at most "
                f"{_MOST_HOLDINGS // max(1, members)} of them in a call"
            )
        if request.near is not None:
            self._distance(request.near, request.near)
        located = (
            self.index.locate(
                model, tokens, members=request.members, salt=request.salt, lora=request.lora
            )
            for tokens in (*prompts, *map(_unpacked, packed))
        )
        return LocateResponse([self._shown(each, request.near) for each in located])

    def model_of(self, request: LocateRequest) -> str:
        """The model that a request is about: the one that it names, or the only one.

        Raises:
            KVError: there are several, or it is none of them.
        """
        name, models = request.model, self.index.models
        if name is None and len(models) < 2:
            return models[0] if models else ""
        if name is None or (models and name not in models):
            problem = "of several models" if name is None else f"of other models than {name!r} only"
            raise KVError(f"there are blocks {problem}: name one of {', '.join(sorted(models))}")
        return name

    def _shown(self, location: Location, near: str | None) -> PromptLocation:
        holdings = [
            MemberHolding(*each, None if near is None else self._distance(near, each.member))
            for each in location.holdings
        ]
        return PromptLocation(location.tokens, location.block_tokens, holdings)


def _unpacked(prompt: bytes) -> TokenIds:
    if len(prompt) % 4:
        raise KVError(
            f"invalid prompt of {len(prompt)} bytes in `packed`: expected token ids of 32 bits, "
            "4 bytes each"
        )
    return np.frombuffer(prompt, "<u4")


@asynccontextmanager
async def following(
    directory: PoolDirectory,
    streams: Sequence[Stream],
    discover: Callable[[], Sequence[Stream]] = lambda: (),
) -> AsyncIterator[list[str]]:
    """Follow streams until the block ends; it begins when each has been replayed once.

    Yields the names of those that were not, because no publisher answered.

    Args:
        directory: of their blocks.
        streams: to follow.
        discover: called each second; further streams that it returns are followed as well.

    Raises:
        KVError: a stream's address cannot be used.
    """
    context = zmq.asyncio.Context()
    followers: dict[Stream, StreamFollower] = {}
    tasks: list[asyncio.Task[None]] = []

    def follow(stream: Stream) -> None:
        followers[stream] = StreamFollower(stream, context, directory.apply)
        directory.followers.append(followers[stream])
        tasks.append(asyncio.create_task(followers[stream].run()))
        what = f"{stream.name} is not followed, and its blocks are not known"
        tasks[-1].add_done_callback(functools.partial(_log_failure, what))

    async def follow_more() -> None:
        while True:
            await asyncio.sleep(_DISCOVERY_S)
            for stream in discover():
                if stream not in followers:
                    follow(stream)

    for stream in streams:
        follow(stream)
    first = list(followers.values())
    replayed = asyncio.gather(*(follower.caught_up.wait() for follower in first))
    works: list[asyncio.Future[Any]] = [replayed, *tasks]
    try:
        await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():  # it follows until it is cancelled, so it has failed
                task.result()
        tasks.append(asyncio.create_task(follow_more()))
        what = "members that join from now on are not followed"
        tasks[-1].add_done_callback(functools.partial(_log_failure, what))
        yield [each.stream.name for each in first if not each.is_replayed]
    finally:
        works = [replayed, *tasks]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        context.destroy(linger=0)


def _log_failure(what: str, task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s: %s", what, error)


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


def make_app(directory: PoolDirectory) -> ASGIApp:
    """The HTTP interface; requests under other names than loopback's are refused."""
    look_ups = _LookUps(directory)

    async def members(_: Request) -> Response:
        return _json_response(directory.members())

    async def metrics(_: Request) -> Response:
        known = directory.members()
        return Response(index_metrics(known.blocks, known.streams), media_type=METRICS_TYPE)

    async def openapi(_: Request) -> Response:
        return JSONResponse(openapi_document())

    others = Starlette(
        routes=[
            Route("/v1/locate", look_ups, methods=["POST"]),
            Route("/v1/members", members),
            Route("/metrics", metrics),
            Route("/openapi.json", openapi),
        ]
    )

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        # Starlette's routing takes longer than finding a prompt of 1,000 tokens
        if scope["type"] == "http" and (scope["method"], scope["path"]) == ("POST", "/v1/locate"):
            await look_ups(scope, receive, send)
        else:
            await others(scope, receive, send)

    return TrustedHostMiddleware(app, allowed_hosts=_HOSTS)


def _json_response(answer: Struct) -> Response:
    return Response(msgspec.json.encode(answer), media_type=_JSON)


class _Refusal(Exception):
    """A request that is refused before its body is read to the end."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _LookUps:
    """Answers look-ups: in ASGI, because Starlette's requests and responses cost as much as two."""

    def __init__(self, directory: PoolDirectory) -> None:
        self._directory = directory
        self._json = msgspec.json.Decoder(LocateRequest), msgspec.json.Encoder()
        self._msgpack = msgspec.msgpack.Decoder(LocateRequest), msgspec.msgpack.Encoder()
        self._arriving_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request in its own encoding, JSON or msgpack."""
        is_msgpack = (b"content-type", _MSGPACK.encode()) in scope["headers"]
        decoder, encoder = self._msgpack if is_msgpack else self._json
        headers = [(b"content-type", (_MSGPACK if is_msgpack else _JSON).encode())]
        status = 200
        answer: LocateResponse | Error
        try:
            body = await self._body(receive)
            if body is None:
                return  # nobody reads an answer
            answer = self._directory.locate(decoder.decode(body))
        except KVError as error:
            status, answer = 400, Error(str(error))
        except msgspec.MsgspecError as error:
            status = 400
            answer = Error(f"invalid request: {error}. GET /openapi.json describes its fields")
        except _Refusal as refusal:
            status, answer = refusal.status, Error(str(refusal))
            headers.append((b"connection", b"close"))  # the rest of the body is not read
        data = encoder.encode(answer)
        headers.append((b"content-length", str(len(data)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": data})

    async def _body(self, receive: Receive) -> bytes | None:
        """A request's body; ``None``: the client has left.

        Raises:
            _Refusal: it is too large or too late, or others fill the memory.
        """
        chunks: list[bytes] = []
        taken = 0
        try:
            async with asyncio.timeout(_BODY_S):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    chunk = message.get("body", b"")
                    chunks.append(chunk)
                    taken += len(chunk)
                    self._arriving_bytes += len(chunk)
                    self._require_room(taken)
                    if not message.get("more_body"):
                        return b"".join(chunks)
        except TimeoutError:
            raise _Refusal(
                408, f"the request did not arrive within {_BODY_S:g} s: send it again"
            ) from None
        finally:
            self._arriving_bytes -= taken

    def _require_room(self, body_bytes: int) -> None:
        if body_bytes > _MOST_BODY_BYTES:
            raise _Refusal(
                413,
                f"the request is larger than {_MOST_BODY_BYTES} bytes: send fewer prompts "
                "in a call",
            )
        if body_bytes > _SMALL_BODY_BYTES and self._arriving_bytes > _MOST_BODIES_BYTES:
            raise _Refusal(
                503, "large requests of others are arriving: send it again, or fewer prompts"
            )


def openapi_document() -> dict[str, Any]:
    """The interface, in OpenAPI 3.1."""
    _, schemas = msgspec.json.schema_components(
        (LocateRequest, LocateResponse, Members, Error),
        ref_template="#/components/schemas/{name}",
    )

    def of(name: str, *forms: str) -> dict[str, Any]:
        schema = {"schema": {"$ref": f"#/components/schemas/{name}"}}
        return {"content": dict.fromkeys(forms or (_JSON,), schema)}

    def refused(what: str) -> dict[str, Any]:
        return {"description": what, **of("Error", _JSON, _MSGPACK)}

    located = {
        "200": {"description": "Found", **of("LocateResponse", _JSON, _MSGPACK)},
        "400": refused("Invalid request"),
        "408": refused("The request did not arrive in time"),
        "413": refused("The request is too large"),
        "503": refused("Large requests of others are arriving"),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "innet: where prefixes are", "version": "1"},
        "paths": {
            "/v1/locate": {
                "post": {
                    "summary": "The members that have the longest prefixes of prompts",
                    "requestBody": {"required": True, **of("LocateRequest", _JSON, _MSGPACK)},
                    "responses": located,
                }
            },
            "/v1/members": {
                "get": {
                    "summary": "The models, and the blocks and streams of members",
                    "responses": {"200": {"description": "Now", **of("Members")}},
                }
            },
        },
        "components": {"schemas": schemas},
    }
