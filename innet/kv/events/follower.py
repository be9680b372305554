"""Follows streams of events over ZeroMQ: live batches, and replays of missing ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import zmq
import zmq.asyncio
from zmq.utils.monitor import parse_monitor_message

from innet.errors import KVError
from innet.kv.events.endpoints import Endpoints
from innet.kv.events.publisher import END, NUMBER_BYTES
from innet.kv.events.reader import StreamReader
from innet.kv.events.wire import Batch, Event, decode
from innet.kv.pool.waiting import gather

REPLAY_S: Final = 5.0
"""A replay whose next message takes longer has ended: there is no such endpoint, or it is busy."""
_FRAMES: Final = 3
_UNNAMED: Final = b""
"""Topic of replays without topics, as vLLM before 0.26 and SGLang before 0.5.22 send them, until a
live batch has one."""

Apply = Callable[[str, str, list[Event]], None]
"""Called with the member, the model and events to apply."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stream:
    """A stream to follow.

    Attributes:
        name: of the member, where topics do not say it.
        endpoints: of the publisher.
    """

    name: str
    endpoints: Endpoints


@dataclass(frozen=True)
class StreamStatus:
    """What a follower received of a stream.

    Attributes:
        stream: its name.
        address: of its events.
        is_replayed: whether a replay has arrived.
        batches: that were applied.
        unknown_events: events of types that this version does not know; they are skipped.
        invalid_events: events with missing or impossible fields; they are skipped.
        invalid_messages: messages that are no batch.
        lost_batches: batches that the publisher no longer had.
    """

    stream: str
    address: str
    is_replayed: bool
    batches: int
    unknown_events: int
    invalid_events: int
    invalid_messages: int
    lost_batches: int


class StreamFollower:
    """Follows one publisher, over its restarts.

    Attributes:
        stream: that it follows.
        caught_up: set when the first replay has ended.
        is_replayed: whether a replay has arrived.
    """

    def __init__(self, stream: Stream, context: zmq.asyncio.Context, apply: Apply) -> None:
        """
        Args:
            stream: to follow.
            context: of its sockets.
            apply: called in the event loop.
        """
        self.caught_up = asyncio.Event()
        self.stream = stream
        self.is_replayed = False
        self._context = context
        self._apply = apply
        self._readers: dict[bytes, StreamReader] = {}
        self._missing = asyncio.Event()
        self._missing.set()
        self._interruptions = 0
        """Times that a replay in progress has become useless: another one follows."""
        self._replayed = 0
        """Batches of replays that were applied."""
        self._lost = 0
        self._invalid_messages = 0
        self._logged: set[str] = set()

    @property
    def status(self) -> StreamStatus:
        """What arrived so far."""
        readers = self._readers.values()
        return StreamStatus(
            stream=self.stream.name,
            address=self.stream.endpoints.events,
            is_replayed=self.is_replayed,
            batches=sum(reader.applied for reader in readers),
            unknown_events=sum(reader.unknown for reader in readers),
            invalid_events=sum(reader.invalid for reader in readers),
            invalid_messages=self._invalid_messages,
            lost_batches=sum(reader.lost for reader in readers),
        )

    async def run(self) -> None:
        """Follow until cancelled."""
        with self._context.socket(zmq.SUB) as live:
            live.setsockopt(zmq.LINGER, 0)
            monitor = live.get_monitor_socket(zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED)
            live.subscribe(b"")
            try:
                self._connect(live, self.stream.endpoints.events)
                await gather([self._receive(live), self._watch(monitor), self._replay()])
            finally:
                live.disable_monitor()

    def _connect(self, socket: zmq.asyncio.Socket, address: str) -> None:
        try:
            socket.connect(address)
        except zmq.ZMQError as error:
            raise KVError(
                f"the events of {self.stream.name} cannot be followed at {address}: {error}. "
                "Give the address at which they are published"
            ) from error

    async def _receive(self, live: zmq.asyncio.Socket) -> None:
        while True:
            frames = await live.recv_multipart()
            if (found := self._decoded(frames)) is not None:
                topic, number, batch = found
                self._forget_unnamed(topic)
                reader = self._readers.setdefault(topic, StreamReader())
                self._events(topic, reader.receive(number, batch))
                if reader.is_waiting:
                    self._missing.set()

    def _forget_unnamed(self, topic: bytes) -> None:
        """Forget what was replayed without a topic, as it is replayed again under this one."""
        if topic != _UNNAMED and (reader := self._readers.pop(_UNNAMED, None)) is not None:
            self._interruptions += 1
            self._events(_UNNAMED, reader.reset())

    async def _watch(self, monitor: zmq.asyncio.Socket) -> None:
        """Clear the blocks of a publisher that disconnects; request a replay when it connects."""
        while True:
            event = parse_monitor_message(await monitor.recv_multipart())["event"]
            if event == zmq.EVENT_DISCONNECTED:
                self._interruptions += 1
                for topic, reader in self._readers.items():
                    self._events(topic, reader.reset())
            else:
                for reader in self._readers.values():
                    reader.is_waiting = True  # also if a replay was awaited in vain meanwhile
                self._missing.set()

    async def _replay(self) -> None:
        while True:
            await self._missing.wait()
            self._missing.clear()
            before, replayed = self._interruptions, self._replayed
            has_ended = await self._replay_once()
            if self._interruptions != before:
                continue
            if not has_ended and self._replayed > replayed:
                self._missing.set()  # the publisher waits little for a consumer that is busy
                continue
            self._end_replay()
            self._show_lost()
            self.caught_up.set()

    def _end_replay(self) -> None:
        for topic, reader in self._readers.items():
            if reader.is_waiting:
                self._events(topic, reader.end_replay())

    def _show_lost(self) -> None:
        """Log lost batches, once for each replay that lacked some."""
        lost = self.status.lost_batches
        if lost > self._lost:
            _log.warning(
                "%s: %d batches of KV events are lost, and its publisher has them no longer. Its "
                "blocks are not exactly known until it restarts: let it keep more batches for "
                "replays, or see whether replays are published at %s",
                self.stream.name, lost - self._lost, self.stream.endpoints.replay,
            )  # fmt: skip
        self._lost = lost

    async def _replay_once(self) -> bool:
        """Request and apply a replay; false: it has not come to its end."""
        waiting = [reader for reader in self._readers.values() if reader.is_waiting]
        first = min((reader.next_number for reader in waiting), default=0)
        before, replayed = self._interruptions, self._replayed
        with self._context.socket(zmq.DEALER) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            self._connect(socket, self.stream.endpoints.replay)
            await socket.send_multipart([b"", first.to_bytes(NUMBER_BYTES, "big")])
            try:
                while True:
                    async with asyncio.timeout(REPLAY_S):
                        _, *frames = await socket.recv_multipart()
                    self.is_replayed = True
                    if frames[-2:-1] == [END]:
                        return True
                    if self._interruptions != before:
                        return False
                    self._on_replayed(frames, first)
            except TimeoutError:
                if self._replayed == replayed:
                    _log.warning(
                        "%s: no replay of KV events from %s within %g s; blocks that it had before "
                        "are not known. See whether it runs and publishes there",
                        self.stream.name, self.stream.endpoints.replay, REPLAY_S,
                    )  # fmt: skip
                return False

    def _on_replayed(self, frames: list[bytes], first: int) -> None:
        if len(frames) == _FRAMES - 1:
            topics = [topic for topic in self._readers if topic != _UNNAMED]
            frames = [topics[0] if len(topics) == 1 else _UNNAMED, *frames]
        if (found := self._decoded(frames)) is None:
            return
        topic, number, batch = found
        reader = self._readers.setdefault(topic, StreamReader())
        # A topic that lacks batches before this replay waits for the next one.
        if reader.is_waiting and first <= reader.next_number <= number:
            self._replayed += 1
            self._events(topic, reader.replay(number, batch))

    def _decoded(self, frames: list[bytes]) -> tuple[bytes, int, Batch] | None:
        try:
            if len(frames) != _FRAMES:
                raise KVError(
                    f"expected a topic, a number and a batch, received {len(frames)} frames"
                )
            topic, number, payload = frames
            batch = decode(payload)
        except KVError as error:
            self._invalid_messages += 1
            self._log_once("%s: %s", str(error))
            return None
        if batch.unknown:
            self._log_once("%s: events of %s are skipped", "types that this version does not know")
        if batch.invalid:
            self._log_once("%s: events %s are skipped", "with missing or impossible fields")
        return topic, int.from_bytes(number, "big"), batch

    def _log_once(self, text: str, what: str) -> None:
        """Log the first of its kind: `innet kv index` counts all of them."""
        if text not in self._logged:
            self._logged.add(text)
            _log.warning(text, self.stream.name, what)

    def _events(self, topic: bytes, events: list[Event]) -> None:
        if events:
            parts = topic.decode(errors="replace").split("@")
            member, model = parts[1:] if len(parts) == _FRAMES else (self.stream.name, parts[-1])
            self._apply(member, model, events)
