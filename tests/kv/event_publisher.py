"""A publisher of KV events whose messages a test chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import zmq
import zmq.asyncio

from innet.kv.events.endpoints import Endpoints
from innet.kv.events.publisher import NUMBER_BYTES

Frames = list[bytes]


def numbered(number: int) -> bytes:
    """A batch's number, as it is sent."""
    return number.to_bytes(NUMBER_BYTES, "big")


class StandInPublisher:
    """The sockets of a member or an engine.

    Args:
        folder: for its sockets.
        context: of them.
        replay: the messages of a replay from a number on; it ends with the end's.

    Attributes:
        endpoints: at which it is followed.
    """

    def __init__(
        self,
        folder: Path,
        context: zmq.asyncio.Context,
        replay: Callable[[int], Iterable[Frames]],
    ) -> None:
        self.endpoints = Endpoints.of(f"ipc://{folder}/events")
        self._replay = replay
        self._live = context.socket(zmq.XPUB)
        self._router = context.socket(zmq.ROUTER)
        self._live.bind(self.endpoints.events)
        self._router.bind(self.endpoints.replay)

    async def run(self) -> None:
        """Answer requests for replays until cancelled."""
        while True:
            name, _, number = await self._router.recv_multipart()
            for message in self._replay(int.from_bytes(number, "big")):
                await self._router.send_multipart([name, b"", *message])

    async def subscribed(self) -> None:
        """Wait for a subscription."""
        await self._live.recv()

    async def publish(self, message: Frames) -> None:
        """Send a live message."""
        await self._live.send_multipart(message)
