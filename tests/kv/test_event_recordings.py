"""Events of engines, as recorded from their publishers: all prompts are found, nothing is skipped.

``tests/kv/recordings/record.py`` has recorded them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgpack
import pytest
import zmq.asyncio

from innet.kv.events.follower import Stream
from innet.kv.events.index import PrefixIndex
from innet.kv.events.publisher import END, NUMBER_BYTES
from innet.kv.events.service import PoolDirectory, following, serving
from innet.kv.events.wire import Event
from tests.kv.event_publisher import Frames, StandInPublisher, numbered
from tests.kv.recordings.record import SIZE, TOKENS, tokens

RECORDINGS = sorted(Path(__file__).parent.glob("recordings/*.json"))
LOOK_UPS = {
    "base": (None, ""),
    "lora": ("tuned", ""),
    "lora and salt": ("tuned", "s"),
    "salt": (None, "s"),
    "next": (None, ""),
}
"""Adapter and salt of each recorded prompt."""
FOUND = {"next": SIZE}
"""Tokens of prompts of which less is there than both blocks: one was removed."""
WITHOUT = {
    "sglang-0.5.15": {"lora", "lora and salt", "salt"},
    "sglang-0.5.21": {"lora", "lora and salt"},
}
"""Prompts whose adapters and salts a version does not publish."""

LAST = msgpack.packb([9.0, [{"type": "BlockStored", "block_hashes": [9], "parent_block_hash": None,
                             "token_ids": [9], "block_size": 1}], 0])  # fmt: skip
"""A batch of one event, which is published live."""


def frames(recorded: list[list[str]]) -> list[Frames]:
    return [[bytes.fromhex(frame) for frame in message] for message in recorded]


class Watched(PoolDirectory):
    """A directory that is awaited."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()

    def apply(self, member: str, model: str, events: list[Event]) -> None:
        super().apply(member, model, events)
        self._changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until it holds."""
        while not holds():
            self._changed.clear()
            await self._changed.wait()


@asynccontextmanager
async def followed(
    folder: Path, replay: list[Frames]
) -> AsyncIterator[tuple[StandInPublisher, Watched]]:
    """A directory that follows an engine with these messages in its replays."""

    def replayed(first: int) -> list[Frames]:
        return [message for message in replay if message[-2] >= numbered(first)]  # as the end's is

    context = zmq.asyncio.Context()
    engine, directory = StandInPublisher(folder, context, replayed), Watched()
    task = asyncio.create_task(engine.run())
    try:
        async with asyncio.timeout(60):
            async with following(directory, [Stream("h0", engine.endpoints)]):
                yield engine, directory
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        context.destroy(linger=0)


def found(index: PrefixIndex, model: str) -> dict[str, int]:
    """Tokens that are found of each prompt, with its adapter and salt and with no other ones."""
    for lora, salt in set(LOOK_UPS.values()):
        for prompt, own in LOOK_UPS.items():
            if own != (lora, salt):
                assert not index.locate(model, tokens(prompt), lora=lora, salt=salt).tokens
    return {
        prompt: index.locate(model, tokens(prompt), lora=lora, salt=salt).tokens
        for prompt, (lora, salt) in LOOK_UPS.items()
    }


def expected(path: Path) -> dict[str, int]:
    without = WITHOUT.get(path.stem, set())
    return {prompt: 0 if prompt in without else FOUND.get(prompt, 2 * SIZE) for prompt in LOOK_UPS}


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
async def test_prompts_of_an_engine_are_found_after_a_replay_and_live(
    path: Path, tmp_path: Path
) -> None:
    """A replay without topics is of a model without a name, until a live batch names it."""
    recording = json.loads(path.read_bytes())  # noqa: ASYNC240
    live, replay = frames(recording["live"]), frames(recording["replay"])
    has_topics = len(replay[0]) == 3
    async with followed(tmp_path, replay) as (engine, directory):
        index = directory.index
        assert index.models == ["llama" if has_topics else ""]
        assert found(index, index.models[0]) == expected(path)
        number = int.from_bytes(replay[-2][-2], "big") + 1
        last = [live[0][0], numbered(number), LAST]
        replay.insert(-1, last if has_topics else last[1:])
        await engine.subscribed()
        await engine.publish(last)
        await directory.until(lambda: index.locate("llama", (9,)).tokens > 0)
        assert index.models == ["llama"]
        assert found(index, "llama") == expected(path)
        assert index.locate("llama", tokens("picture")).tokens in (0, SIZE)
        [status] = directory.members().streams
        assert (status.unknown_events, status.invalid_events, status.lost_batches) == (0, 0, 0)


def stored(first: int, **fields: object) -> dict[str, object]:
    return {
        "type": "BlockStored", "block_hashes": [first], "parent_block_hash": None,
        "token_ids": [first] * SIZE, "block_size": SIZE, "medium": "GPU", **fields,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("event", "is_unknown"),
    [
        ({"type": "Later", "x": 1}, True),
        (["Later", 1], True),
        ({"type": 7}, True),
        ({}, False), (7, False), ([], False), (None, False), ({(1, 2): 3}, False), ({1: 2}, False),
        ([["BlockStored"], 1], False),
        (["BlockStored", [1]], False),
        (stored(9, token_ids=[1, 2, 3]), False),
        (stored(9, token_ids=[-1] * SIZE), False),
        (stored(9, token_ids=[1 << 32] * SIZE), False),
        (stored(9, token_ids=[[1, 2, 3]] * SIZE), False),
        (stored(9, block_size=-1), False),
        (stored(9, block_hashes=["9"]), False),
        (stored(9, extra_keys=[[{}]]), False),
        (stored(9, lora_name=9), False),
        ({"type": "BlockRemoved"}, False),
        ({"type": "BlockRemoved", "block_hashes": [9], "medium": [1]}, False),
    ],
)  # fmt: skip
async def test_an_event_that_cannot_be_read_leaves_the_others_and_is_counted(
    event: object, is_unknown: bool, tmp_path: Path
) -> None:
    payload = msgpack.packb([1.0, [stored(5), event, stored(6)], 0])
    replay = [[b"kv@h0@llama", bytes(NUMBER_BYTES), payload], [b"", END, b""]]
    async with followed(tmp_path, replay) as (_, directory), serving(directory) as url:
        for first in (5, 6):
            assert directory.index.locate("llama", [first] * SIZE).tokens == SIZE
        async with aiohttp.ClientSession() as client:
            async with client.get(f"{url}/v1/members") as answer:
                members = await answer.json()
            async with client.get(f"{url}/metrics") as answer:
                metrics = await answer.text()
        [status] = members["streams"]
        assert (status["unknown_events"], status["invalid_events"]) == (is_unknown, not is_unknown)
        kind = "unknown" if is_unknown else "invalid"
        address = status["address"]
        assert (
            f'innet_kv_index_{kind}_events_total{{address="{address}",stream="h0"}} 1.0' in metrics
        )
        assert 'innet_kv_index_blocks{member="h0"} 2.0' in metrics


def test_recordings_are_of_all_prompts() -> None:
    assert set(LOOK_UPS) | {"picture"} == set(TOKENS)
    assert len(RECORDINGS) == 10
