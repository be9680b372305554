"""The experiment harness: ranks join a conductor, take turns, and report their results.

The conductor is the process of the experiment, a rank is a process on a host. Ranks form teams:
all ranks of one contender, or of one replay. Each connects to the conductor's Unix socket (which
network namespaces do not separate) and sends :class:`Joined`. In a turn, the conductor sends each
rank of one team its task in :class:`Prepare` and waits until all are ready. :class:`Go` has a
common start time on the machine's monotonic clock. A rank sends :class:`Status` when it is ready,
while it runs if there is progress to show, and when it is done. When all are done, the conductor
sends :class:`Verify`, and each rank verifies its results and answers with :class:`TurnReport`.
Messages are lines of JSON; end of file ends a rank.

Memory is allocated before the start and results are verified after the end of all ranks, because on
a machine with fewer cores than ranks an early rank would take processor time from the others. Ranks
of other teams meanwhile block on their socket, so contenders can alternate turn by turn under equal
conditions.

A rank's side is :mod:`innet.lab.turns`: what it does is a ``RankWork`` that ``serve`` drives, or an
``AsyncRankWork`` that ``serve_async`` drives. The conductor's side is :class:`Conductor`,
:class:`Team` and :class:`SessionRanks`.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import psutil
from pydantic import BaseModel

from innet.errors import EmulationError
from innet.lab.turns import (
    LINE_BYTES,
    Go,
    Joined,
    LineMessage,
    Prepare,
    Status,
    TurnReport,
    Verify,
    receive,
)

if TYPE_CHECKING:
    from innet.cluster.emulation.processes import SupervisedProcess
    from innet.cluster.launch.session import Session
    from innet.cluster.session_client import RestartPolicy

_START_DELAY_S = 0.005
_START_DELAY_PER_RANK_S = 0.001

EXIT_S = 10.0
"""Time for ranks to exit after the conductor has closed their connections."""

_T = TypeVar("_T")
_Contender = TypeVar("_Contender")
_Result = TypeVar("_Result", bound=BaseModel)
_Message = TypeVar("_Message", bound=LineMessage)


def machine_cpu_s() -> float:
    """Processor time of the whole machine so far, from an arbitrary start; subtract two readings.

    All that is not idle, waiting for disks or stolen by the hypervisor, hence with the kernel's
    interrupts. The kernel measures idle time and samples the others, so this is the time that has
    passed on all processors without it. The resolution is 10 ms.
    """
    times = psutil.cpu_times()
    passed_s = time.monotonic() * (psutil.cpu_count() or 1)
    return passed_s - times.idle - times.iowait - times.steal


@dataclass(frozen=True)
class Turn(Generic[_Result]):
    """The outcome of a turn.

    Attributes:
        results: by rank.
        started_s: the common start, on the monotonic clock.
        machine_cpu_s: processor time of the whole machine from there until all ranks were done.
    """

    results: tuple[_Result, ...]
    started_s: float
    machine_cpu_s: float


@dataclass
class _Member:
    """The connection of one rank."""

    who: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    is_done: bool = False
    has_left: bool = False

    async def receive(self, kind: type[_Message]) -> _Message:
        return await receive(self.reader, kind, self.who)


class Team:
    """All ranks of one contender or replay; made by :meth:`Conductor.assemble`.

    Attributes:
        name: of the team.
        version: of the measured program.
    """

    def __init__(self, name: str, version: str, members: Sequence[_Member]) -> None:
        self.name = name
        self.version = version
        self._members = members
        self._turns = 0

    async def take_turn(
        self, task: BaseModel, kind: type[_Result], deadline_s: float
    ) -> Turn[_Result]:
        """Let all ranks do ``task`` at the same time.

        Args:
            task: its text is part of error messages.
            kind: of the results.
            deadline_s: for the whole turn.
        """
        try:
            async with asyncio.timeout(deadline_s):
                await self.prepare([task] * len(self._members))
                started_s = self.start()
                await asyncio.sleep(started_s - time.monotonic())
                before_s = machine_cpu_s()
                await self.finish()
                used_s = machine_cpu_s() - before_s
                results = await self.results(kind)
        except TimeoutError:
            raise EmulationError(
                f"{self.name} {task} did not end within {deadline_s:.0f} s"
            ) from None
        return Turn(tuple(results.values()), started_s, used_s)

    async def prepare(self, tasks: Sequence[BaseModel]) -> None:
        """Give each rank its task; returns when all are ready."""
        self._turns += 1
        turn = self._turns

        def written() -> list[bytes]:
            return [Prepare(turn=turn, task=task.model_dump(mode="json")).line() for task in tasks]

        lines = await asyncio.to_thread(written)  # tasks of a replay are large
        for member, line in zip(self._members, lines, strict=True):
            member.writer.write(line)
        await _gather([self._reaches(member, "ready") for member in self._members])

    def start(self) -> float:
        """Let all ranks start together; returns the start on the monotonic clock."""
        delay_s = _START_DELAY_S + _START_DELAY_PER_RANK_S * len(self._members)
        go = Go(start_s=time.monotonic() + delay_s)
        for member in self._members:
            member.writer.write(go.line())
        return go.start_s

    async def finish(
        self,
        show: Callable[[int, dict[str, Any]], None] | None = None,
        *,
        lets_leave: bool = False,
    ) -> None:
        """Wait until all ranks are done.

        Args:
            show: receives the progress of a rank.
            lets_leave: a rank may leave; it is then done, without a result.
        """

        async def finish_one(rank: int, member: _Member) -> None:
            try:
                await self._reaches(member, "done", show and partial(show, rank))
            except EmulationError:
                member.has_left = True
                if not lets_leave:
                    raise

        await _gather([finish_one(rank, member) for rank, member in enumerate(self._members)])

    async def results(self, kind: type[_Result]) -> dict[int, _Result]:
        """The result of each rank that has not left; interrupts ranks that are not done."""

        async def result(rank: int, member: _Member) -> tuple[int, _Result]:
            member.writer.write(Verify().line())
            if not member.is_done:
                await self._reaches(member, "done")
            report = await member.receive(TurnReport)
            if report.result is None:
                raise EmulationError(f"{self.name} failed on rank {rank}: {report.error}")
            return rank, kind.model_validate(report.result)

        return dict(
            await _gather(
                [
                    result(rank, member)
                    for rank, member in enumerate(self._members)
                    if not member.has_left
                ]
            )
        )

    def dismiss(self) -> None:
        """Close the connections, so that the ranks exit."""
        for member in self._members:
            member.writer.close()

    @staticmethod
    async def _reaches(
        member: _Member, state: str, show: Callable[[dict[str, Any]], None] | None = None
    ) -> None:
        while (status := await member.receive(Status)).state != state:
            if show is not None and status.progress is not None:
                show(status.progress)
        member.is_done = state == "done"


class Conductor:
    """The socket that ranks join while its context lasts.

    Attributes:
        path: of the socket, in a directory that others cannot write to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._joined: dict[str, asyncio.Queue[tuple[Joined, _Member]]] = {}
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def assemble(
        self,
        name: str,
        ranks: int,
        deadline_s: float,
        job: asyncio.Future[tuple[str, ...]] | None = None,
    ) -> Team:
        """Wait until all ranks of a team have joined.

        Args:
            name: of the team.
            ranks: their number.
            deadline_s: for all of them.
            job: that runs the ranks, if any; its end ends the wait.
        """
        joined: dict[int, tuple[Joined, _Member]] = {}

        async def all_join() -> None:
            while len(joined) < ranks:
                hello, member = await self._queue(name).get()
                joined[hello.rank] = hello, member

        joining = asyncio.ensure_future(all_join())
        waits: set[asyncio.Future[Any]] = {joining} if job is None else {joining, job}
        try:
            await asyncio.wait(waits, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            joining.cancel()
        if len(joined) < ranks:
            if job is not None and job.done():
                await job
            missing = ", ".join(str(rank) for rank in range(ranks) if rank not in joined)
            when = "before its processes ended" if job and job.done() else f"in {deadline_s:.0f} s"
            raise EmulationError(f"ranks {missing} of {name} did not start {when}")
        return Team(name, joined[0][0].version, [joined[rank][1] for rank in range(ranks)])

    def hang_up(self) -> None:
        """Close all connections, so that the ranks of all teams exit."""
        for writer in self._writers:
            writer.close()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._join, self.path, limit=LINE_BYTES)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        self.hang_up()
        self.path.unlink(missing_ok=True)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            hello = await receive(reader, Joined, "a rank")
        except EmulationError:
            writer.close()  # the rank exited at once; its launcher reports why
            return
        member = _Member(f"rank {hello.rank} of {hello.team}", reader, writer)
        self._queue(hello.team).put_nowait((hello, member))

    def _queue(self, name: str) -> asyncio.Queue[tuple[Joined, _Member]]:
        return self._joined.setdefault(name, asyncio.Queue())


class SessionRanks:
    """The ranks of a team, as a job of a session."""

    def __init__(self, session: Session, command: Sequence[str]) -> None:
        self._session = session
        self._command = command
        self.job: asyncio.Future[tuple[str, ...]] | None = None

    async def start(
        self, hosts: Sequence[str] | None = None, restarts: RestartPolicy | None = None
    ) -> None:
        """Start the job: a rank on each of ``hosts``, by default on all."""
        self.job = asyncio.ensure_future(
            self._session.run_workers(self._command, hosts=hosts, restarts=restarts)
        )

    async def failure(self) -> str | None:
        """The job's report once it has ended; ``None`` if it did not fail."""
        assert self.job is not None
        await asyncio.wait([self.job], timeout=EXIT_S)
        if self.job.done() and not self.job.cancelled() and self.job.exception() is not None:
            return str(self.job.exception())
        return None

    async def end(self, grace_s: float = EXIT_S) -> None:
        """Wait for the job of a dismissed team, and kill ranks that do not exit in time."""
        if self.job is None:
            return
        await asyncio.wait([self.job], timeout=grace_s)
        for process in self._session.network.processes.processes:
            if process.spec.argv == tuple(self._command):
                await kill(process)
        self.job.cancel()  # its ranks may not have started yet
        await asyncio.gather(self.job, return_exceptions=True)


async def kill(process: SupervisedProcess) -> None:
    """End a process at once."""
    process.send_signal(signal.SIGKILL)
    await process.wait()


def alternating(
    contenders: Sequence[_Contender], turns: Callable[[_Contender], int]
) -> Iterator[tuple[int, _Contender]]:
    """Rounds of all contenders: the number of the round, and the contender.

    Every other round is in reverse order, so that a drift of the machine favours no contender.

    >>> list(alternating(["a", "b"], {"a": 2, "b": 1}.__getitem__))
    [(0, 'a'), (0, 'b'), (1, 'a')]
    """
    for number in range(max(map(turns, contenders), default=0)):
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            if number < turns(contender):
                yield number, contender


async def _gather(coroutines: Sequence[Coroutine[Any, Any, _T]]) -> list[_T]:
    """All results; the first failure, such as a rank that leaves, cancels the others."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
