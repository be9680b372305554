"""The parent's side of the turns: clients of several stores, one of which works at a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from innet.errors import EmulationError
from innet.lab.compare.block_stores.messages import Hello, Report, Turn
from innet.line_messages import receive

_LINE_BYTES = 1 << 20
_START_S = 60.0


@dataclass(frozen=True)
class Contender:
    """A client that has joined.

    Attributes:
        store: whose client it is.
        version: what it says that is measured.
    """

    store: str
    version: str
    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter

    async def take(self, turn: Turn, deadline_s: float) -> Report:
        """Let it take a turn.

        Raises:
            EmulationError: it failed, left, or did not end in time.
        """
        self._writer.write(turn.line())
        try:
            async with asyncio.timeout(deadline_s):
                report = await receive(self._reader, Report, self.store)
        except TimeoutError:
            raise EmulationError(
                f"{self.store} did not end its turn within {deadline_s:.0f} s"
            ) from None
        if report.error is not None:
            raise EmulationError(f"{self.store} failed: {report.error}")
        return report


class Contest:
    """The socket that clients join, while its context lasts."""

    def __init__(self, path: Path) -> None:
        """``path``: where the socket shall be, in a directory that others cannot write to."""
        self.path = path
        self._joined: dict[str, asyncio.Future[Contender]] = {}
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def contender(self, store: str) -> Contender:
        """Wait until a store's client has joined.

        Raises:
            EmulationError: it does not.
        """
        try:
            async with asyncio.timeout(_START_S):
                return await self._future(store)
        except TimeoutError:
            raise EmulationError(f"no client of {store} joined within {_START_S:.0f} s") from None

    def hang_up(self) -> None:
        """End all clients."""
        for writer in self._writers:
            writer.close()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._join, self.path, limit=_LINE_BYTES)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        self.hang_up()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            hello = await receive(reader, Hello, "a client")
        except EmulationError:
            writer.close()  # it ended at once; whoever started it knows why
            return
        contender = Contender(hello.store, hello.version, reader, writer)
        self._future(hello.store).set_result(contender)

    def _future(self, store: str) -> asyncio.Future[Contender]:
        return self._joined.setdefault(store, asyncio.get_running_loop().create_future())
