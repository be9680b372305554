"""Publishes a member's events over ZeroMQ, as vLLM's publisher does: PUB, and ROUTER for replays.

A message is three frames: the topic, the batch's number in 8 bytes, big-endian, and the batch. A
consumer that misses a number sends an empty frame and the first missing number from a DEALER to the
replay socket. It receives all batches from there on, each behind an empty frame, and then a message
with the number -1. With several models, the batches of all topics are sent.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

import zmq
import zmq.asyncio

from innet.errors import KVError
from innet.kv.events.endpoints import Endpoints
from innet.kv.events.log import EventLog

NUMBER_BYTES: Final = 8
END: Final = (-1).to_bytes(NUMBER_BYTES, "big", signed=True)
"""The number that ends a replay."""

_BATCH_S: Final = 0.005
"""Events within this time become one batch."""
_MOST_QUEUED: Final = 2000
"""Batches for a consumer that does not read; it loses further ones, and has them replayed."""
_LINGER_MS: Final = 100
_MOST_REPLAYED: Final = 64
"""Batches of a replay that wait for its consumer in this process."""
_SEND_S: Final = 1.0
"""A consumer that reads less than half of these in so long loses the rest: others wait."""

_log = logging.getLogger(__name__)


class Publishable(Protocol):
    """Streams that change.

    Attributes:
        on_pending: called when there are events to publish.
    """

    on_pending: Callable[[], None]

    @property
    def streams(self) -> dict[bytes, EventLog]:
        """By topic."""


@asynccontextmanager
async def publishing(events: Publishable, endpoints: Endpoints) -> AsyncIterator[Endpoints]:
    """Publish until the block ends, also what is pending then, and yield the bound addresses.

    Raises:
        KVError: an address cannot be bound.
    """
    context = zmq.asyncio.Context()
    publisher = _Publisher(events, context)
    try:
        bound = publisher.bind(endpoints)
        replays = asyncio.ensure_future(publisher.answer_replays())
        try:
            yield bound
        finally:
            publisher.flush()
            events.on_pending = lambda: None
            replays.cancel()
            await asyncio.gather(replays, return_exceptions=True)
    finally:
        publisher.close()
        context.destroy(linger=_LINGER_MS)


class _Publisher:
    """The sockets of a stream, in one event loop."""

    def __init__(self, events: Publishable, context: zmq.asyncio.Context) -> None:
        self._events = events
        self._timer: asyncio.TimerHandle | None = None
        self._pub: zmq.Socket[bytes] = zmq.Context.shadow(context).socket(zmq.PUB)
        self._pub.set_hwm(_MOST_QUEUED)
        self._router = context.socket(zmq.ROUTER)
        self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._router.setsockopt(zmq.SNDHWM, _MOST_REPLAYED)

    def bind(self, endpoints: Endpoints) -> Endpoints:
        """Bind both sockets, and publish pending events from now on."""
        bound = []
        for socket, endpoint in ((self._pub, endpoints.events), (self._router, endpoints.replay)):
            try:
                socket.bind(endpoint)
                if endpoint.startswith("ipc://"):
                    Path(endpoint.removeprefix("ipc://")).chmod(0o600)
            except (zmq.ZMQError, OSError) as error:
                raise KVError(
                    f"KV events cannot be published at {endpoint}: {error}. Give another port or "
                    "path with events= or events_replay="
                ) from error
            bound.append(socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0"))
        self._events.on_pending = self._flush_soon
        self._flush_soon()
        return Endpoints(*bound)

    def flush(self) -> None:
        """Publish pending events now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for topic, log in self._events.streams.items():
            batch = log.cut(time.time())
            if batch is not None:
                number, payload = batch
                self._pub.send_multipart([topic, number.to_bytes(NUMBER_BYTES, "big"), payload])

    def close(self) -> None:
        """Close the socket that the context does not know."""
        self._pub.close(linger=_LINGER_MS)

    async def answer_replays(self) -> None:
        """Answer requests for lost batches, one after the other."""
        while True:
            frames = await self._router.recv_multipart()
            try:
                await self._answer(frames)
            except (TimeoutError, zmq.ZMQError, ValueError) as error:
                _log.info("a replay of KV events ended early: %r", error)

    async def _answer(self, frames: list[bytes]) -> None:
        if len(frames) != 3 or frames[1] or len(frames[2]) != NUMBER_BYTES:
            raise ValueError(f"no request for a replay: {len(frames)} frames")
        head, number = frames[:2], int.from_bytes(frames[2], "big")
        self.flush()
        for topic, log in self._events.streams.items():
            for each, payload in log.since(number):
                place = each.to_bytes(NUMBER_BYTES, "big")
                await self._send_replayed([*head, topic, place, payload])
        await self._send_replayed([*head, b"", END, b""])

    async def _send_replayed(self, frames: list[bytes]) -> None:
        async with asyncio.timeout(_SEND_S):
            await self._router.send_multipart(frames)

    def _flush_soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_BATCH_S, self.flush)
