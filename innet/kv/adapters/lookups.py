"""Lookups of an engine's scheduler in the pool that its worker has joined.

An engine runs its scheduler and its worker in one process or in two. A host has one node, so one
process joins the pool: the worker's, because it moves the blocks. A scheduler in another process
asks the worker's over a Unix socket in the run directory (:mod:`innet.cluster.requests`), with a
connection for each lookup: so lookups run concurrently, and closing a connection cancels one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from innet.cluster.requests import ClientConnection, RequestClient, RequestServer
from innet.errors import ControlError, KVError, NoAnswer
from innet.kv.adapters.engine_pool import Member
from innet.kv.loop_thread import LoopThread
from innet.kv.names import BlockKey
from innet.kv.pool import BlockPool
from innet.kv.pool.network import Contents
from innet.node.node_config import NODE_CONFIG_VARIABLE, NodeConfig
from innet.node.requests import ControlRequest

_WHO: Final = "the engine's worker"
_MOST_CONNECTIONS: Final = 64
"""Limit of concurrent lookups: each takes a file descriptor on both sides."""
_WORKER_PATIENCE_S: Final = 10.0
"""Wait for the worker. Engines start it first, so only a killed engine's socket takes this long."""


CountPrefix = Callable[[Sequence[BlockKey], "Wait | None"], Future[int]]
"""How many of the blocks, from the first on, exist without a gap; announced ones are awaited."""


@dataclass(frozen=True)
class Wait:
    """A wait for the blocks that another engine announces for a request.

    Attributes:
        request: its name.
        timeout_s: of the wait.
    """

    request: str
    timeout_s: float


def announced_as(request: str, key: BlockKey) -> str:
    """The name of the announcement: each rank announces its own part."""
    return f"{request}/{key.family.layout}"


async def count_prefix(blocks: BlockPool, keys: Sequence[BlockKey], wait: Wait | None) -> int:
    """See :data:`CountPrefix`."""
    if wait is None:
        return await blocks.count_prefix(keys)
    named = [(announced_as(wait.request, key), key) for key in keys]
    return await blocks.announcements.count_prefix(named, timeout_s=wait.timeout_s)


async def get_announced(blocks: BlockPool, key: BlockKey, request: str) -> Contents | None:
    """A block, from the producer that has announced it for ``request`` if there is one."""
    if not request:
        return await blocks.get(key)
    announced = await blocks.announcements.follow(announced_as(request, key))
    return await blocks.get(key, producer="" if announced is None else announced.producer)


def lookup_socket() -> Path | None:
    """The socket at which this host's worker answers lookups; ``None`` outside of a run.

    It is in the run directory, which only the user of the run can enter.
    """
    path = os.environ.get(NODE_CONFIG_VARIABLE)
    if path is None:
        return None
    return NodeConfig.load(Path(path)).control_socket.with_suffix(".kv")


class LookupServer:
    """Answers lookups of the scheduler's process in the worker's, on the pool's own thread."""

    def __init__(self, member: Member, path: Path) -> None:
        """Listen at ``path``, and replace the socket of a dead process.

        Raises:
            KVError: the socket cannot be bound, or the pool is closed.
        """
        self._member = member
        self._server = RequestServer(path, self._respond, who=_WHO)
        try:
            member.submit(self._server.__aenter__()).result()
        except ControlError as error:
            raise KVError(str(error)) from error

    def close(self) -> None:
        """Stop answering. Safe after the pool is closed."""
        with suppress(KVError):
            self._member.submit(self._server.__aexit__()).result()

    async def _respond(self, request: ControlRequest, _client: ClientConnection) -> Any:
        if request.method == "tenant":
            return self._member.tenant
        if request.method != "count_prefix":
            raise ValueError(f"{_WHO} has no method {request.method!r}")
        keys = [BlockKey.parse(str(name)) for name in request.params.get("names", ())]
        waits = request.params.get("wait")
        wait = Wait(str(waits["request"]), float(waits["timeout_s"])) if waits else None
        return await count_prefix(self._member.blocks, keys, wait)


class LookupClient:
    """Lookups in the pool that the worker's process has joined.

    Attributes:
        tenant: the component that stands for the tenant in names.
    """

    def __init__(self, path: Path, patience_s: float = _WORKER_PATIENCE_S) -> None:
        """
        Args:
            path: of the worker's socket.
            patience_s: how long to wait for the worker.

        Raises:
            KVError: no worker listens in time.
        """
        self._path = path
        self._thread = LoopThread("the lookups of the scheduler")
        self._free = asyncio.Semaphore(_MOST_CONNECTIONS)
        try:
            self.tenant = str(self._thread.run(self._ask("tenant", timeout_s=patience_s)))
        except BaseException:
            self._thread.close()
            raise

    def count_prefix(self, keys: Sequence[BlockKey], wait: Wait | None = None) -> Future[int]:
        """See :data:`CountPrefix`; the pool's own timeout bounds it, or that of the wait."""
        return self._thread.submit(self._count(keys, wait))

    def close(self) -> None:
        """End all lookups. Safe to call twice."""
        self._thread.close()

    async def _count(self, keys: Sequence[BlockKey], wait: Wait | None) -> int:
        if not keys:
            return 0
        waits = {} if wait is None else {"request": wait.request, "timeout_s": wait.timeout_s}
        return int(await self._ask("count_prefix", names=[key.name for key in keys], wait=waits))

    async def _ask(self, method: str, timeout_s: float | None = None, **params: Any) -> Any:
        """
        Raises:
            KVError: there is no answer, or it is an error.
        """
        client = RequestClient(self._path, who=_WHO, is_patient=timeout_s is not None)
        try:
            async with self._free:
                return await client.request(method, params, timeout_s)
        except NoAnswer as error:
            raise KVError(
                f"no answer to a lookup at {self._path}. The worker joins the pool first: see its "
                "output"
            ) from error
        except ControlError as error:
            raise KVError(f"{_WHO}: {error}") from error
        finally:
            client.close()
