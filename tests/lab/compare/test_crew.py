"""Turns: real workers of a made-up contender, and workers that leave, fail or hang."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from innet.errors import EmulationError
from innet.lab.compare.crew import Crew, Roster
from innet.lab.compare.pattern import FloatArray
from innet.lab.compare.turns import Hello, Prepare
from innet.lab.compare.worker import Worker

RANKS = 3
PREPARE = Prepare(turn=1, call="any", size_bytes=4096, operations=1)


class Exchange:
    """Sums the contributions of threads, as a library would those of processes."""

    def __init__(self) -> None:
        self.shared: list[FloatArray] = [np.empty(0, np.float32)] * RANKS
        self.barrier = threading.Barrier(RANKS)


class ThreadContender:
    """One rank of an :class:`Exchange`."""

    size = RANKS
    version = "threads 1.0"

    def __init__(self, exchange: Exchange, rank: int) -> None:
        self.rank = rank
        self._exchange = exchange
        self._contribution: FloatArray = np.empty(0, np.float32)
        self._result: FloatArray = np.empty(0, np.float32)

    def load(self, call: str, contribution: FloatArray) -> None:
        self._contribution = contribution

    def allreduce(self) -> None:
        self._exchange.shared[self.rank] = self._contribution
        self._exchange.barrier.wait()
        self._result = np.sum(self._exchange.shared, axis=0, dtype=np.float32)
        self._exchange.barrier.wait()

    def result(self) -> FloatArray:
        return self._result

    def close(self) -> None:
        """Nothing to leave."""


class StaleContender(ThreadContender):
    """Gives the result of its first operation again and again."""

    def result(self) -> FloatArray:
        self.first = getattr(self, "first", self._result)
        return self.first


class FailingContender(ThreadContender):
    """Fails on rank 1."""

    def allreduce(self) -> None:
        if self.rank == 1:
            raise RuntimeError("cable pulled")


@pytest.fixture
async def roster() -> AsyncIterator[Roster]:
    """A roster at a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="innet-test-") as directory:
        async with Roster(Path(directory) / "turns.sock") as roster:
            yield roster


@contextlib.asynccontextmanager
async def crew_of(
    kind: Callable[[Exchange, int], ThreadContender], roster: Roster
) -> AsyncIterator[Crew]:
    exchange = Exchange()

    def work(rank: int, path: str) -> None:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            Worker(kind(exchange, rank)).serve(connection, "threads")

    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(RANKS) as pool:
        # Rank 0 joins last: the order of arrival is not the order of ranks.
        work_items = [
            loop.run_in_executor(pool, work, rank, str(roster.path))
            for rank in reversed(range(RANKS))
        ]
        crew = await roster.assemble("threads", RANKS, deadline_s=10)
        try:
            yield crew
        finally:
            crew.dismiss()
            await asyncio.gather(*work_items)


async def test_a_turn_reports_every_rank_in_order_and_the_slowest_time(roster: Roster) -> None:
    async with crew_of(ThreadContender, roster) as crew:
        assert crew.version == "threads 1.0"
        for number in range(3):
            turn = await crew.take_turn(PREPARE.model_copy(update={"turn": number}), 10)
            assert all(report.correct for report in turn.reports)
            slowest_s = max(report.durations_s[0] for report in turn.reports)
            assert turn.samples_s == (slowest_s,)


async def test_operations_in_a_row_leave_out_the_one_that_gathers_the_ranks(roster: Roster) -> None:
    async with crew_of(ThreadContender, roster) as crew:
        turn = await crew.take_turn(PREPARE.model_copy(update={"operations": 5}), 10)
        assert len(turn.samples_s) == 4
        assert all(report.correct for report in turn.reports)


async def test_a_stale_result_is_noticed(roster: Roster) -> None:
    async with crew_of(StaleContender, roster) as crew:
        first = await crew.take_turn(PREPARE, 10)
        second = await crew.take_turn(PREPARE.model_copy(update={"turn": 2}), 10)
    assert all(report.correct for report in first.reports)
    assert not any(report.correct for report in second.reports)


async def test_an_exception_of_the_library_names_its_rank(roster: Roster) -> None:
    async with crew_of(FailingContender, roster) as crew:
        with pytest.raises(EmulationError, match=r"threads failed on rank 1: .*cable pulled"):
            await crew.take_turn(PREPARE, 10)


@contextlib.asynccontextmanager
async def silent_worker(roster: Roster) -> AsyncIterator[tuple[Crew, asyncio.StreamWriter]]:
    """A worker that says hello and then nothing."""
    _reader, writer = await asyncio.open_unix_connection(roster.path)
    writer.write(Hello(contender="silent", rank=0, version="").line())
    yield await roster.assemble("silent", 1, deadline_s=10), writer
    writer.close()


async def test_a_worker_that_hangs_is_given_up_at_the_deadline(roster: Roster) -> None:
    async with silent_worker(roster) as (crew, _):
        begun_s = time.monotonic()
        with pytest.raises(EmulationError, match="silent any of 4096 bytes did not end"):
            await crew.take_turn(PREPARE, 0.05)
        assert time.monotonic() - begun_s < 10


async def test_a_worker_that_leaves_ends_the_turn_at_once(roster: Roster) -> None:
    async with silent_worker(roster) as (crew, writer):
        writer.close()
        with pytest.raises(EmulationError, match="rank 0 of silent has left"):
            await crew.take_turn(PREPARE, 60)


async def test_a_worker_that_talks_nonsense_is_refused(roster: Roster) -> None:
    async with silent_worker(roster) as (crew, writer):
        writer.write(b'{"turn": "soon"}\n')
        with pytest.raises(EmulationError, match="where Ready was due"):
            await crew.take_turn(PREPARE, 60)


async def test_workers_that_do_not_come_are_named(roster: Roster) -> None:
    with pytest.raises(EmulationError, match="ranks 0, 1 of nobody did not start"):
        await roster.assemble("nobody", 2, deadline_s=0.01)
