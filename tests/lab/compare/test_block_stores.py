"""A contest of block stores: whoever gives other bytes than were put has failed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from innet.errors import EmulationError
from innet.lab.compare.block_stores.client import Blocks
from innet.lab.compare.block_stores.contest import Contest
from innet.lab.compare.block_stores.messages import Hello, Report, Turn
from innet.lab.compare.block_stores.worker import TurnTaker

TURN = Turn(number=3, block_bytes=100, blocks=4, outstanding=2)


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


def test_a_turn_reports_each_call_and_leaves_nothing_behind() -> None:
    shelf = Shelf()
    report = TurnTaker(shelf).take(TURN)
    assert report.error is None
    assert len(report.put_s) == len(report.get_s) == TURN.blocks
    assert not shelf.kept


def test_wrong_bytes_are_an_error_and_no_result() -> None:
    report = TurnTaker(OneByteOff()).take(TURN)
    assert report.error is not None
    assert "not those that were put" in report.error


def test_blocks_that_never_came_are_not_taken_for_those_of_the_turn_before() -> None:
    shelf = Shelf()
    taker = TurnTaker(shelf)
    assert taker.take(TURN).error is None
    shelf.get = lambda key, row: None  # type: ignore[method-assign]
    assert taker.take(TURN).error is not None


async def test_clients_take_turns_over_the_socket(tmp_path: Path) -> None:
    async with Contest(tmp_path / "contest.sock") as contest:
        client = asyncio.create_task(asyncio.to_thread(_take_one_turn, contest.path, Shelf()))
        contender = await contest.contender("shelf")
        report = await contender.take(TURN, deadline_s=10)
        await client
        assert (contender.version, report.number) == ("a shelf", 3)
        assert np.all(np.array(report.get_s) > 0)


async def test_a_client_that_leaves_ends_the_contest(tmp_path: Path) -> None:
    async with Contest(tmp_path / "contest.sock") as contest:
        with socket.socket(socket.AF_UNIX) as connection:
            await asyncio.to_thread(connection.connect, str(contest.path))
            connection.sendall(Hello(store="shelf", version="a shelf").line())
            contender = await contest.contender("shelf")
        with pytest.raises(EmulationError, match="shelf has left"):
            await contender.take(TURN, deadline_s=10)


def _take_one_turn(path: Path, shelf: Shelf) -> Report:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(Hello(store="shelf", version=shelf.version).line())
        turn = Turn.model_validate_json(connection.makefile("rb").readline())
        report = TurnTaker(shelf).take(turn)
        connection.sendall(report.line())
        return report
