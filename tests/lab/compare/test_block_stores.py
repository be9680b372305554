"""A contest of block stores: whoever gives other bytes than were put has failed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from innet.errors import EmulationError, KVError
from innet.lab.harness import Conductor
from shared.block_work import (
    Blocks,
    BlocksResult,
    BlocksTask,
    BlocksWork,
    take_turns,
)

TASK = BlocksTask(block_bytes=100, blocks=4, outstanding=[2, 4])


class Shelf:
    """A store in this process."""

    version = "a shelf"

    def __init__(self) -> None:
        self.kept: dict[str, Blocks] = {}

    def load(self, source: Blocks, landing: Blocks) -> None:
        self.source, self.landing = source, landing

    def put(self, key: str, row: int) -> None:
        self.kept[key] = self.source[row].copy()

    def get(self, key: str, row: int) -> None:
        self.landing[row] = self.kept[key]

    def put_all(self, keys: Sequence[str], outstanding: int) -> None:
        for row, key in enumerate(keys):
            self.put(key, row)

    def get_all(self, keys: Sequence[str], outstanding: int) -> None:
        for row, key in enumerate(keys):
            self.get(key, row)

    def landed(self) -> Blocks:
        return self.landing

    def forget(self, keys: Sequence[str]) -> None:
        for key in keys:
            del self.kept[key]

    def close(self) -> None:
        pass


class OneByteOff(Shelf):
    """Loses a bit now and then."""

    def get_all(self, keys: Sequence[str], outstanding: int) -> None:
        super().get_all(keys, outstanding)
        self.landing[2, 7] ^= 1


async def turn_of(shelf: Shelf, conductor: Conductor, turns: int = 1) -> BlocksResult:
    """The result of the last of some turns that a client takes in a thread."""
    client = asyncio.create_task(asyncio.to_thread(take_turns, "shelf", str(conductor.path), shelf))
    team = await conductor.assemble("shelf", 1, deadline_s=10)
    try:
        for _ in range(turns):
            turn = await team.take_turn(TASK, BlocksResult, deadline_s=10)
    finally:
        team.dismiss()
        await client
    assert team.version == "a shelf"
    return turn.results[0]


@pytest.fixture
async def conductor(tmp_path: Path) -> AsyncIterator[Conductor]:
    async with Conductor(tmp_path / "turns.sock") as conductor:
        yield conductor


async def test_a_turn_reports_each_call_and_leaves_nothing_behind(conductor: Conductor) -> None:
    shelf = Shelf()
    result = await turn_of(shelf, conductor, turns=2)
    assert len(result.put_s) == len(result.get_s) == TASK.blocks
    assert np.all(np.array(result.get_s) > 0)
    assert not shelf.kept


async def test_wrong_bytes_are_an_error_and_no_result(conductor: Conductor) -> None:
    with pytest.raises(EmulationError, match="not those that were put"):
        await turn_of(OneByteOff(), conductor)


def test_missing_blocks_are_not_mistaken_for_those_of_the_previous_turn() -> None:
    shelf = Shelf()
    work = BlocksWork(shelf)
    work.prepare(1, TASK.model_dump())
    work.run()
    shelf.get = lambda key, row: None  # type: ignore[method-assign]
    work.prepare(2, TASK.model_dump())
    with pytest.raises(KVError, match="not those that were put"):
        work.run()
