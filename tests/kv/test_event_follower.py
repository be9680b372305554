"""Followed streams whose replays break off or lack batches, and publishers that start again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import zmq.asyncio

from innet.kv.events.follower import Stream, StreamFollower
from innet.kv.events.publisher import END
from innet.kv.events.wire import AllCleared, Batch, BlocksStored, Event, encode
from tests.kv.event_publisher import Frames, StandInPublisher, numbered

TOPIC = b"kv@h0@llama"


def message_of(number: int) -> Frames:
    """A batch with the block of its number."""
    return [TOPIC, numbered(number), encode(Batch(float(number), (BlocksStored((number,)),)))]


@dataclass
class Buffer:
    """The batches that a publisher keeps for replays.

    Attributes:
        oldest: number of the first batch that it has.
        newest: number of the last batch.
        at_once: batches of a replay before it breaks off.
    """

    oldest: int = 0
    newest: int = 3
    at_once: int = 100

    def replay(self, first: int) -> list[Frames]:
        """The messages of a replay."""
        batches = range(max(first, self.oldest), self.newest + 1)
        return [*map(message_of, batches), [b"", END, b""]][: self.at_once]


class Followed:
    """A publisher with a script, and what a follower applies of its stream."""

    def __init__(self, publisher: StandInPublisher, buffer: Buffer) -> None:
        self.publisher = publisher
        self.buffer = buffer
        self.blocks: list[int] = []
        self._changed = asyncio.Event()

    def apply(self, member: str, model: str, events: list[Event]) -> None:
        assert (member, model) == ("h0", "llama")
        for event in events:
            match event:
                case BlocksStored():
                    self.blocks += event.hashes
                case AllCleared():
                    self.blocks.clear()
        self._changed.set()

    async def publish(self, number: int) -> None:
        """Publish a batch, and none of those before it."""
        self.buffer.newest = number
        await self.publisher.publish(message_of(number))

    async def until(self, *blocks: int) -> None:
        """Wait until these are the blocks."""
        while tuple(self.blocks) != blocks:
            self._changed.clear()
            await self._changed.wait()


@asynccontextmanager
async def followed(folder: Path, buffer: Buffer) -> AsyncIterator[Followed]:
    context = zmq.asyncio.Context()
    there = Followed(StandInPublisher(folder, context, buffer.replay), buffer)
    follower = StreamFollower(Stream("h0", there.publisher.endpoints), context, there.apply)
    tasks = [asyncio.create_task(each.run()) for each in (there.publisher, follower)]
    try:
        async with asyncio.timeout(60):
            await follower.caught_up.wait()
            yield there
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        context.destroy(linger=0)


@pytest.fixture(autouse=True)
def _short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("innet.kv.events.follower.REPLAY_S", 0.2)


async def test_a_replay_that_breaks_off_is_continued(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with followed(tmp_path, Buffer(newest=6, at_once=2)) as there:
        await there.until(*range(7))
    assert not caplog.records


async def test_lost_batches_are_logged_once_for_each_replay_without_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with followed(tmp_path, Buffer(oldest=5, newest=6)) as there:
        await there.until(5, 6)
        await there.publisher.subscribed()
        there.buffer.oldest = 14
        await there.publish(16)
        await there.until(5, 6, 14, 15, 16)
        await there.publish(17)
        await there.until(5, 6, 14, 15, 16, 17)
    [first, second] = [record.getMessage() for record in caplog.records]
    assert "h0: 5 batches of KV events are lost" in first
    assert "h0: 7 batches of KV events are lost" in second


async def test_a_publisher_without_replays_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with followed(tmp_path, Buffer(at_once=0)):
        pass
    assert "h0: no replay of KV events from" in caplog.records[0].getMessage()
