"""How an engine's scheduler looks blocks up in the pool that its worker's process has joined.

An engine may run its scheduler and its worker in one process or in two. A host has one node, so
one process joins the pool: the worker's, because it moves the blocks. A scheduler in another
process asks the worker's over a Unix socket in the run directory.

A connection carries one request and its answer, a line of JSON each. So lookups of many requests
run side by side, and a cancelled one is a closed connection.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from innet.backoff import Backoff
from innet.errors import EmulationError, InnetError, KVError
from innet.kv.adapters.pool_of_process import Member
from innet.kv.loop_thread import LoopThread
from innet.kv.names import BlockKey
from innet.line_messages import LineMessage, receive
from innet.node.node_config import NODE_CONFIG_VARIABLE, NodeConfig

_MAX_LINE_BYTES: Final = 16 << 20
"""Room for the names of a prompt with 60,000 chunks."""
_MOST_CONNECTIONS: Final = 64
"""Lookups under way at once; the others wait. Each takes a file descriptor on both sides."""
_WORKER_PATIENCE_S: Final = 10.0
"""Engines start the worker first: only a socket that a killed engine left makes this wait."""
_FIRST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 0.2


class Lookups(Protocol):
    """What the scheduler's side needs of a pool.

    Attributes:
        tenant: the component that stands for the tenant in names.
    """

    tenant: str

    def count_prefix(self, keys: Sequence[BlockKey]) -> Future[int]:
        """How many of ``keys``, from the first on, exist without a gap."""

    def close(self) -> None:
        """Look nothing up any more."""


class MemberLookups:
    """Lookups in the pool of this process."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self.tenant = member.tenant

    def count_prefix(self, keys: Sequence[BlockKey]) -> Future[int]:
        """See :meth:`Lookups.count_prefix`."""
        return self._member.submit(self._member.blocks.count_prefix(keys))

    def close(self) -> None:
        """The pool belongs to the process."""


class _Request(LineMessage):
    """Names of a prompt's blocks, in order; without any it asks for the tenant alone."""

    names: tuple[str, ...] = ()


class _Answer(LineMessage):
    """The worker's answer."""

    tenant: str
    count: int = 0
    error: str = ""


def lookup_socket() -> Path | None:
    """Where the worker of this host answers lookups; ``None`` outside of a run.

    It lies in the run directory, which only the user who launched the run can enter.
    """
    path = os.environ.get(NODE_CONFIG_VARIABLE)
    if path is None:
        return None
    return NodeConfig.load(Path(path)).control_socket.with_suffix(".kv")


class LookupServer:
    """Answers lookups of the scheduler's process in the worker's, on the pool's own thread."""

    def __init__(self, member: Member, path: Path) -> None:
        """Listen at ``path``, in the place of a socket that a dead process may have left.

        Raises:
            KVError: the socket cannot be bound, or the pool is closed.
        """
        self._member = member
        self._path = path
        self._server = member.submit(self._listen()).result()

    def close(self) -> None:
        """Stop answering. Safe after the pool is closed."""
        with suppress(KVError):
            self._member.submit(self._stop()).result()

    async def _listen(self) -> asyncio.Server:
        self._path.unlink(missing_ok=True)
        try:
            return await asyncio.start_unix_server(
                self._serve, self._path, limit=_MAX_LINE_BYTES, backlog=_MOST_CONNECTIONS
            )
        except OSError as error:
            raise KVError(
                f"the worker cannot listen for the scheduler's lookups at {self._path}: "
                f"{error.strerror}. Has the run ended?"
            ) from error

    async def _stop(self) -> None:
        self._server.close()
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await receive(reader, _Request, "the scheduler")
            writer.write((await self._answer(request)).line())
            await writer.drain()
        except (EmulationError, ConnectionError, ValueError):
            pass  # whoever connected has left, or is no scheduler's side
        finally:
            writer.close()

    async def _answer(self, request: _Request) -> _Answer:
        tenant = self._member.tenant
        try:
            keys = [BlockKey.parse(name) for name in request.names]
            count = await self._member.blocks.count_prefix(keys) if keys else 0
        except InnetError as error:
            return _Answer(tenant=tenant, error=str(error))
        return _Answer(tenant=tenant, count=count)


class LookupClient:
    """Lookups in the pool that the worker's process has joined.

    Attributes:
        tenant: see :class:`Lookups`.
    """

    def __init__(self, path: Path, patience_s: float = _WORKER_PATIENCE_S) -> None:
        """
        Args:
            path: of the worker's socket.
            patience_s: how long to wait until the worker listens.

        Raises:
            KVError: no worker listens in time.
        """
        self._path = path
        self._thread = LoopThread("the lookups of the scheduler")
        self._free = asyncio.Semaphore(_MOST_CONNECTIONS)
        try:
            self.tenant = self._thread.run(self._tenant(patience_s))
        except BaseException:
            self._thread.close()
            raise

    def count_prefix(self, keys: Sequence[BlockKey]) -> Future[int]:
        """See :meth:`Lookups.count_prefix`."""
        return self._thread.submit(self._count(keys))

    def close(self) -> None:
        """See :meth:`Lookups.close`. Safe to call twice."""
        self._thread.close()

    async def _tenant(self, patience_s: float) -> str:
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        end_s = time.monotonic() + patience_s
        while True:
            try:
                return (await self._ask(_Request())).tenant
            except KVError:
                if time.monotonic() >= end_s:
                    raise
            await asyncio.sleep(backoff.next_s())

    async def _count(self, keys: Sequence[BlockKey]) -> int:
        async with self._free:
            return (await self._ask(_Request(names=tuple(key.name for key in keys)))).count

    async def _ask(self, request: _Request) -> _Answer:
        """
        Raises:
            KVError: nobody answers, or the answer is a refusal.
        """
        try:
            async with _connection(self._path) as (reader, writer):
                writer.write(request.line())
                await writer.drain()
                answer = await receive(reader, _Answer, "the worker")
        except (OSError, EmulationError) as error:
            raise KVError(
                f"the engine's worker does not answer lookups at {self._path}: {error}. "
                "The worker joins the pool first: see its output"
            ) from error
        if answer.error:
            raise KVError(f"the engine's worker: {answer.error}")
        return answer


@asynccontextmanager
async def _connection(
    path: Path,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_unix_connection(path, limit=_MAX_LINE_BYTES)
    try:
        yield reader, writer
    finally:
        writer.close()
