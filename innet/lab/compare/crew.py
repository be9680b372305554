"""The parent's side of the turns: the workers of one contender, all together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from innet.errors import EmulationError
from innet.lab.compare.turns import Check, Done, Go, Hello, Prepare, Ready, Report
from innet.line_messages import receive

_LINE_BYTES = 1 << 20
_START_DELAY_S = 0.005
_START_DELAY_PER_RANK_S = 0.001

_Message = TypeVar("_Message", Hello, Ready, Done, Report)


@dataclass(frozen=True)
class Turn:
    """The outcome of a turn.

    Attributes:
        samples_s: for each reported operation, the time of the rank that took longest.
        reports: by rank.
        started_s: the common start, on the monotonic clock.
    """

    samples_s: tuple[float, ...]
    reports: tuple[Report, ...]
    started_s: float


class _Member:
    """The connection of one worker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.hello: Hello | None = None

    async def receive(self, kind: type[_Message], who: str) -> _Message:
        return await receive(self._reader, kind, who, leaves="the comparison")

    def send(self, message: Prepare | Go | Check) -> None:
        self.writer.write(message.line())


class Crew:
    """The workers of one contender, one for each rank; made by :meth:`Roster.assemble`."""

    def __init__(self, name: str, members: Sequence[_Member], version: str) -> None:
        self.name = name
        self.version = version
        self._members = tuple(members)

    async def take_turn(self, prepare: Prepare, deadline_s: float) -> Turn:
        """Let all ranks do ``prepare`` at the same time.

        Raises:
            EmulationError: a worker left, failed, or did not finish within ``deadline_s`` seconds.
        """
        what = f"{self.name} {prepare.call} of {prepare.size_bytes} bytes"
        try:
            async with asyncio.timeout(deadline_s):
                return await self._take_turn(prepare)
        except TimeoutError:
            raise EmulationError(f"{what} did not end within {deadline_s:.0f} s") from None

    def dismiss(self) -> None:
        """Hang up, upon which the workers end by themselves."""
        for member in self._members:
            member.writer.close()

    async def _take_turn(self, prepare: Prepare) -> Turn:
        self._send_to_all(prepare)
        await self._receive_from_all(Ready)
        delay_s = _START_DELAY_S + _START_DELAY_PER_RANK_S * len(self._members)
        go = Go(start_s=time.monotonic() + delay_s)
        self._send_to_all(go)
        await self._receive_from_all(Done)
        self._send_to_all(Check(turn=prepare.turn))
        reports = await self._receive_from_all(Report)
        for rank, report in enumerate(reports):
            if report.error is not None:
                raise EmulationError(f"{self.name} failed on rank {rank}: {report.error}")
        durations_s = zip(*(report.durations_s for report in reports), strict=True)
        return Turn(tuple(max(of_ranks) for of_ranks in durations_s), tuple(reports), go.start_s)

    def _send_to_all(self, message: Prepare | Go | Check) -> None:
        for member in self._members:
            member.send(message)

    async def _receive_from_all(self, kind: type[_Message]) -> list[_Message]:
        # A task group: the first worker to leave ends the wait for the others.
        return await _gather(
            [
                member.receive(kind, f"rank {rank} of {self.name}")
                for rank, member in enumerate(self._members)
            ]
        )


class Roster:
    """The socket that workers join, while its context lasts."""

    def __init__(self, path: Path) -> None:
        """``path``: where the socket shall be, in a directory that others cannot write to."""
        self.path = path
        self._joined: dict[str, asyncio.Queue[_Member]] = {}
        self._members: list[_Member] = []
        self._server: asyncio.Server | None = None

    async def assemble(self, name: str, ranks: int, deadline_s: float) -> Crew:
        """Wait until all workers of contender ``name`` have joined.

        Raises:
            EmulationError: some did not within ``deadline_s`` seconds.
        """
        joined: dict[int, _Member] = {}
        version = ""
        try:
            async with asyncio.timeout(deadline_s):
                while len(joined) < ranks:
                    member = await self._queue(name).get()
                    assert member.hello is not None
                    joined[member.hello.rank] = member
                    version = member.hello.version
        except TimeoutError:
            missing = ", ".join(str(rank) for rank in range(ranks) if rank not in joined)
            raise EmulationError(
                f"ranks {missing} of {name} did not start within {deadline_s:.0f} s"
            ) from None
        return Crew(name, [joined[rank] for rank in range(ranks)], version)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._join, self.path, limit=_LINE_BYTES)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for member in self._members:
            member.writer.close()
        self.path.unlink(missing_ok=True)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        member = _Member(reader, writer)
        self._members.append(member)
        try:
            member.hello = await member.receive(Hello, "a worker")
        except EmulationError:
            writer.close()  # it ended at once; whoever started it knows why
            return
        self._queue(member.hello.contender).put_nowait(member)

    def _queue(self, name: str) -> asyncio.Queue[_Member]:
        return self._joined.setdefault(name, asyncio.Queue())


async def _gather(coroutines: Sequence[Coroutine[Any, Any, _Message]]) -> list[_Message]:
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
