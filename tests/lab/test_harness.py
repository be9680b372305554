"""Turns: real workers of a made-up contender, and workers that leave, fail or hang."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from innet.errors import EmulationError
from innet.lab.compare.contender import AllreduceResult, AllreduceTask, AllreduceWork
from innet.lab.compare.pattern import FloatArray
from innet.lab.harness import Conductor, Team, Turn, alternating
from innet.lab.turns import Joined, Status, process_cpu_s, serve, serve_async

RANKS = 3
TASK = AllreduceTask(call="any", size_bytes=4096, operations=1)


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


class ComputingContender(ThreadContender):
    """Uses at least 0.2 s of processor time on rank 0."""

    def allreduce(self) -> None:
        begun_s = process_cpu_s()
        while self.rank == 0 and process_cpu_s() - begun_s < 0.2:
            pass
        super().allreduce()


def all_correct(turn: Turn[AllreduceResult]) -> bool:
    return all(result.correct for result in turn.results)


@pytest.fixture
async def conductor() -> AsyncIterator[Conductor]:
    """A conductor at a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="innet-test-") as directory:
        async with Conductor(Path(directory) / "turns.sock") as conductor:
            yield conductor


@contextlib.asynccontextmanager
async def team_of(
    kind: Callable[[Exchange, int], ThreadContender], conductor: Conductor
) -> AsyncIterator[Team]:
    exchange = Exchange()

    def work(rank: int, path: str) -> None:
        hello = Joined(team="threads", rank=rank, version=ThreadContender.version)
        serve(path, hello, AllreduceWork(kind(exchange, rank)))

    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(RANKS) as pool:
        # Rank 0 joins last: the order of arrival is not the order of ranks.
        work_items = [
            loop.run_in_executor(pool, work, rank, str(conductor.path))
            for rank in reversed(range(RANKS))
        ]
        team = await conductor.assemble("threads", RANKS, deadline_s=10)
        try:
            yield team
        finally:
            team.dismiss()
            await asyncio.gather(*work_items)


async def test_a_turn_reports_every_rank_in_order(conductor: Conductor) -> None:
    async with team_of(ThreadContender, conductor) as team:
        assert team.version == "threads 1.0"
        for _ in range(3):
            turn = await team.take_turn(TASK, AllreduceResult, 10)
            assert all_correct(turn)
            assert [len(result.durations_s) for result in turn.results] == [1] * RANKS


async def test_the_machine_uses_at_least_the_time_of_its_processes(conductor: Conductor) -> None:
    async with team_of(ComputingContender, conductor) as team:
        turn = await team.take_turn(TASK, AllreduceResult, 60)
    assert turn.machine_cpu_s >= 0.2 - 0.04, "four readings of 10 ms each"


async def test_back_to_back_operations_exclude_the_first_one(
    conductor: Conductor,
) -> None:
    async with team_of(ThreadContender, conductor) as team:
        five = TASK.model_copy(update={"operations": 5})
        turn = await team.take_turn(five, AllreduceResult, 10)
        assert [len(result.durations_s) for result in turn.results] == [4] * RANKS
        assert all_correct(turn)


async def test_a_stale_result_is_noticed(conductor: Conductor) -> None:
    async with team_of(StaleContender, conductor) as team:
        first = await team.take_turn(TASK, AllreduceResult, 10)
        second = await team.take_turn(TASK, AllreduceResult, 10)
    assert all_correct(first)
    assert not any(result.correct for result in second.results)


async def test_an_exception_in_a_rank_names_the_rank(conductor: Conductor) -> None:
    async with team_of(FailingContender, conductor) as team:
        with pytest.raises(EmulationError, match=r"threads failed on rank 1: .*cable pulled"):
            await team.take_turn(TASK, AllreduceResult, 10)


@contextlib.asynccontextmanager
async def silent_worker(conductor: Conductor) -> AsyncIterator[tuple[Team, asyncio.StreamWriter]]:
    """A worker that says hello and then nothing."""
    _reader, writer = await asyncio.open_unix_connection(conductor.path)
    writer.write(Joined(team="silent").line())
    yield await conductor.assemble("silent", 1, deadline_s=10), writer
    writer.close()


async def test_a_hung_worker_is_abandoned_at_the_deadline(conductor: Conductor) -> None:
    async with silent_worker(conductor) as (team, _):
        begun_s = time.monotonic()
        with pytest.raises(EmulationError, match="silent any of 4096 bytes did not end"):
            await team.take_turn(TASK, AllreduceResult, 0.05)
        assert time.monotonic() - begun_s < 10


async def test_a_worker_that_leaves_ends_the_turn_at_once(conductor: Conductor) -> None:
    async with silent_worker(conductor) as (team, writer):
        writer.close()
        with pytest.raises(EmulationError, match="rank 0 of silent has left"):
            await team.take_turn(TASK, AllreduceResult, 60)


async def test_a_worker_that_sends_malformed_messages_is_refused(conductor: Conductor) -> None:
    async with silent_worker(conductor) as (team, writer):
        writer.write(b'{"turn": "soon"}\n')
        with pytest.raises(EmulationError, match="expected Status, received"):
            await team.take_turn(TASK, AllreduceResult, 60)


async def test_absent_workers_are_named(conductor: Conductor) -> None:
    with pytest.raises(EmulationError, match="ranks 0, 1 of nobody did not start"):
        await conductor.assemble("nobody", 2, deadline_s=0.01)


async def test_ranks_whose_job_has_ended_are_not_waited_for(conductor: Conductor) -> None:
    job: asyncio.Future[tuple[str, ...]] = asyncio.get_running_loop().create_future()
    job.set_result(())
    with pytest.raises(EmulationError, match="did not start before its processes ended"):
        await conductor.assemble("nobody", 1, deadline_s=60, job=job)


class Count(BaseModel):
    """How far a rank has counted."""

    reached: int


class Counting:
    """Counts, and shows each number."""

    async def prepare(self, turn: int, task: dict[str, Any]) -> None:
        self.limit = Count.model_validate(task).reached
        self.reached = 0

    async def run(self, start_s: float, show: Callable[[BaseModel], None]) -> None:
        while self.reached < self.limit:
            self.reached += 1
            show(Count(reached=self.reached))
        if self.limit == 3:
            await asyncio.Event().wait()

    def report(self) -> Count:
        return Count(reached=self.reached)


async def test_an_interrupted_turn_returns_the_counts_so_far(conductor: Conductor) -> None:
    ranks = [
        asyncio.create_task(
            serve_async(str(conductor.path), Joined(team="counters", rank=rank), Counting())
        )
        for rank in range(2)
    ]
    team = await conductor.assemble("counters", 2, deadline_s=10)
    await team.prepare([Count(reached=2), Count(reached=3)])
    team.start()
    shown: list[tuple[int, int]] = []
    all_shown = asyncio.Event()

    def show(rank: int, progress: dict[str, Any]) -> None:
        shown.append((rank, progress["reached"]))
        if len(shown) == 5:
            all_shown.set()

    finishing = asyncio.ensure_future(team.finish(show))
    await all_shown.wait()
    assert not finishing.done()
    finishing.cancel()
    results = await team.results(Count)
    team.dismiss()
    await asyncio.gather(*ranks)
    assert sorted(shown) == [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3)]
    assert {rank: count.reached for rank, count in results.items()} == {0: 2, 1: 3}


async def test_ranks_that_leave_lose_only_their_own_results(conductor: Conductor) -> None:
    _reader, leaving = await asyncio.open_unix_connection(conductor.path)
    leaving.write(Joined(team="counters", rank=0).line() + Status(state="ready").line())
    rank = asyncio.create_task(
        serve_async(str(conductor.path), Joined(team="counters", rank=1), Counting())
    )
    team = await conductor.assemble("counters", 2, deadline_s=10)
    await team.prepare([Count(reached=1)] * 2)
    team.start()
    leaving.close()
    await team.finish(lets_leave=True)
    assert await team.results(Count) == {1: Count(reached=1)}
    team.dismiss()
    await rank


def test_contenders_alternate_with_a_rotating_start() -> None:
    turns = {"a": 3, "b": 3, "c": 1}
    assert list(alternating(list(turns), turns.__getitem__)) == [
        (0, "a"), (0, "b"), (0, "c"), (1, "b"), (1, "a"), (2, "a"), (2, "b"),
    ]  # fmt: skip
