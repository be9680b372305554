"""The messages of a turn of the experiment harness, and a rank's side of it.

See :mod:`innet.lab.harness` for the sequence of messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import time
import traceback
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from innet.errors import EmulationError
from innet.validation_messages import StrictModel

LINE_BYTES = 1 << 30
"""Largest message: all requests of a replay are one line."""


class LineMessage(StrictModel):
    """A message that is sent as one line. Unknown fields are refused."""

    def line(self) -> bytes:
        """The message as it is sent."""
        return self.model_dump_json().encode() + b"\n"


class Joined(LineMessage):
    """A rank has joined and can take turns."""

    team: str
    rank: int = 0
    version: str = ""
    """Version of the measured program, such as "PyTorch 2.13.0"."""


class Prepare(LineMessage):
    """The task of the next turn."""

    turn: int
    task: dict[str, Any]


class Go(LineMessage):
    """Start at this moment of ``time.monotonic()``."""

    start_s: float


class Verify(LineMessage):
    """All ranks are done: verify the results and report."""


class Status(LineMessage):
    """The state of a rank in its turn."""

    state: Literal["ready", "running", "done"]
    progress: dict[str, Any] | None = None


class TurnReport(LineMessage):
    """The result of a turn on one rank, or its error."""

    result: dict[str, Any] | None = None
    error: str | None = None


_Message = TypeVar("_Message", bound=LineMessage)


async def receive(reader: asyncio.StreamReader, kind: type[_Message], who: str) -> _Message:
    """The next message, of type ``kind``; ``who`` is the sender in errors."""
    try:
        line = await reader.readline()
    except ConnectionError:  # it left with something unread
        line = b""
    if not line:
        raise EmulationError(f"{who} has left the experiment")
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        raise EmulationError(f"{who}: expected {kind.__name__}, received {line[:100]!r}") from error


class RankWork(Protocol):
    """A rank's work in a turn. An exception of :meth:`run` or :meth:`report` is its result."""

    def prepare(self, turn: int, task: dict[str, Any]) -> None:
        """Allocate and load everything that :meth:`run` needs."""
        ...

    def run(self) -> None:
        """Do the measured work."""
        ...

    def report(self) -> BaseModel:
        """Verify the results, after all ranks are done."""
        ...


class AsyncRankWork(Protocol):
    """The work of a rank with an event loop in a turn; see :class:`RankWork`."""

    async def prepare(self, turn: int, task: dict[str, Any]) -> None:
        """Allocate and load everything that :meth:`run` needs."""
        ...

    async def run(self, start_s: float, show: Callable[[BaseModel], None]) -> None:
        """Do the task from ``start_s`` on; ``show`` sends progress. Cancelled by an interrupt."""
        ...

    def report(self) -> BaseModel:
        """The result so far."""
        ...


def serve(path: str, hello: Joined, work: RankWork) -> None:
    """Take turns until the conductor at ``path`` closes the connection."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        with contextlib.suppress(ConnectionError):  # closed before it had read everything
            connection.sendall(hello.line())
            _serve(connection, work)


def _serve(connection: socket.socket, work: RankWork) -> None:
    lines = connection.makefile("rb")
    while line := lines.readline():
        prepare = Prepare.model_validate_json(line)
        work.prepare(prepare.turn, prepare.task)
        connection.sendall(Status(state="ready").line())
        if not (line := lines.readline()):
            return
        start_s = Go.model_validate_json(line).start_s
        time.sleep(max(0.0, start_s - time.monotonic()))
        failure = _failure_of(work.run)
        connection.sendall(Status(state="done").line())
        if not lines.readline():
            return
        connection.sendall((failure or _report_of(work)).line())


async def serve_async(path: str, hello: Joined, work: AsyncRankWork) -> None:
    """Take turns until the conductor at ``path`` closes the connection, in the event loop."""
    reader, writer = await asyncio.open_unix_connection(path, limit=LINE_BYTES)
    writer.write(hello.line())
    with contextlib.suppress(ConnectionError):
        await _serve_async(reader, writer, work)
    writer.close()


async def _serve_async(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, work: AsyncRankWork
) -> None:
    def show(progress: BaseModel) -> None:
        writer.write(Status(state="running", progress=progress.model_dump()).line())

    while line := await reader.readline():
        prepare = Prepare.model_validate_json(line)
        await work.prepare(prepare.turn, prepare.task)
        writer.write(Status(state="ready").line())
        if not (line := await reader.readline()):
            return
        running = asyncio.ensure_future(work.run(Go.model_validate_json(line).start_s, show))
        running.add_done_callback(lambda _: writer.write(Status(state="done").line()))
        line = await reader.readline()  # early where the user interrupts the turn
        running.cancel()
        (ended,) = await asyncio.gather(running, return_exceptions=True)
        if not line:
            return
        failure = _failure(ended) if isinstance(ended, Exception) else None
        writer.write((failure or _report_of(work)).line())


def _failure_of(action: Callable[[], object]) -> TurnReport | None:
    try:
        action()
    except Exception as error:  # any exception of a foreign library is the turn's result
        return _failure(error)
    return None


def _failure(error: Exception) -> TurnReport:
    traceback.print_exception(error)
    return TurnReport(error=f"{type(error).__name__}: {error}")


def _report_of(work: RankWork | AsyncRankWork) -> TurnReport:
    try:
        return TurnReport(result=work.report().model_dump())
    except Exception as error:
        return _failure(error)


def process_cpu_s() -> float:
    """Processor time of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
