"""This process's membership of a pool of blocks, on a thread beside the program."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import shutil
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar, Unpack

from innet.errors import KVError
from innet.kv.loop_thread import LoopThread
from innet.kv.pool import BlockPool, DiskTier, MemoryTier, TieredStore
from innet.kv.pool.network import BlockNetwork
from innet.kv.pool.peers import await_members
from innet.kv.pool.statistics import PoolStatistics
from innet.kv.pool_options import MemberOptions, PoolOptions
from innet.kv.tenant import Tenant

Result = TypeVar("Result")

OpenNetwork = Callable[[int], AbstractAsyncContextManager[BlockNetwork]]
"""Joins a pool, offering that many bytes, in the event loop in which it is called."""

_CLOSE_TIMEOUT_S: Final = 10.0
_COUNTERS_TIMEOUT_S: Final = 0.5
"""A request for the node's status waits for this."""
_open_members: weakref.WeakSet[PoolMember] = weakref.WeakSet()


class PoolMember:
    """The engine of a pool, on a thread with an event loop of its own.

    This process serves others while its program computes, and any thread or event loop of the
    program can use the pool.

    Example::

        with PoolMember.open(tenant="acme", memory="1GiB") as member:
            member.run(member.blocks.put(key, contents))
            contents = member.run(member.blocks.get(key, timeout_s=1.0))

    Attributes:
        blocks: the engine; its methods are called in coroutines that :meth:`run`, :meth:`call` and
            :meth:`submit` run, and nowhere else.
        tenant: the component that stands for the tenant in names.
        node: of this process.
    """

    blocks: BlockPool
    tenant: str
    node: str
    _network: BlockNetwork

    def __init__(self, open_network: OpenNetwork, options: MemberOptions) -> None:
        """Most programs use :meth:`open`.

        Raises:
            KVError: the folder for blocks on disk cannot be used, or the pool cannot be joined.
        """
        self._stack = AsyncExitStack()
        self._closed = threading.Lock()
        self.on_close: Callable[[], None] = lambda: None
        self._labels = options
        self._counters = self._counters_of(PoolStatistics())
        self._thread = LoopThread(f"the pool of tenant {options.tenant}")
        try:
            self._thread.run(self._start(open_network, options))
        except BaseException:
            self._thread.close()
            raise
        _open_members.add(self)
        _close_before_threads_end()

    @classmethod
    def open(cls, **options: Unpack[PoolOptions]) -> PoolMember:
        """Join a tenant's pool over this worker's node.

        Args:
            options: see :class:`innet.kv.pool_options.PoolOptions`.

        Raises:
            EmulationError: this process was not started by ``innet run``.
            HostTaken: another process of this host has its node, or this one was forked from it.
            KVError: an option is invalid, or this process is in that pool already.
            SecurityError: the tenant's secret cannot be used.
        """
        from innet.kv.worker_network import open_worker_network, tenant_of_job
        from innet.worker import current_worker

        checked = MemberOptions.of(options)
        worker = current_worker()
        if checked.secret is None:
            tenant = tenant_of_job(worker, checked.tenant)
        elif isinstance(checked.secret, bytes):
            tenant = Tenant(checked.tenant, checked.secret)
        else:
            tenant = Tenant.from_file(checked.tenant, checked.secret)
        member = cls(
            lambda capacity: open_worker_network(
                worker, tenant, capacity_bytes=capacity, weight=checked.weight
            ),
            checked,
        )
        worker.pools.count(member.tenant, member.counters)
        worker.before_close(member.close)
        member.on_close = lambda: worker.no_more_before_close(member.close)
        return member

    def counters(self) -> dict[str, Any]:
        """The pool's counters for metrics; the last known ones while its thread is busy."""
        with contextlib.suppress(KVError, TimeoutError):
            self._counters = self._thread.submit(self._read_counters()).result(_COUNTERS_TIMEOUT_S)
        return self._counters

    async def _read_counters(self) -> dict[str, Any]:
        return self._counters_of(self.blocks.statistics())

    def _counters_of(self, statistics: PoolStatistics) -> dict[str, Any]:
        return statistics.counters(self._labels.tenant, self._labels.engine)

    def submit(self, work: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        """Start ``work`` on the pool's thread; cancelling the future cancels it.

        Raises:
            KVError: the pool is closed.
        """
        return self._thread.submit(work)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of ``work``; the calling thread waits for it.

        Raises:
            KVError: the pool is closed.
        """
        return self._thread.run(work)

    async def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of ``work``, awaited in the caller's event loop.

        Raises:
            KVError: the pool is closed.
        """
        return await self._thread.call(work)

    async def members(self, at_least: int = 0, timeout_s: float = 10.0) -> tuple[str, ...]:
        """The nodes that offer memory, as this process knows them, sorted by name.

        A block's homes depend on them: a process that puts blocks before it knows all members puts
        them where others do not look. Like :attr:`blocks`' methods, it is called on the pool's
        thread.

        Args:
            at_least: wait until there are that many.
            timeout_s: of the wait; after it, those are returned that are there.
        """
        await await_members(self._network, lambda there: len(there) >= at_least, timeout_s)
        return tuple(sorted(self._network.members()))

    def close(self) -> None:
        """Leave the pool; blocks that only this process has are lost. Safe to call twice."""
        if not self._closed.acquire(blocking=False):
            return
        _open_members.discard(self)
        self.on_close()
        with contextlib.suppress(KVError, TimeoutError):  # a forked child has nothing to leave
            self._thread.submit(self._stack.aclose()).result(_CLOSE_TIMEOUT_S)
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _start(self, open_network: OpenNetwork, options: MemberOptions) -> None:
        offered_bytes = options.offered_memory_bytes + options.offered_disk_bytes
        try:
            network = await self._stack.enter_async_context(open_network(offered_bytes))
            self._network = network
            self.tenant, self.node = network.tenant, network.node
            if options.secret is None and options.folder is not None:
                # Nobody knows the job's own secret after the job: its blocks would be useless.
                self._stack.push_async_callback(asyncio.to_thread, _remove, self._folder(options))
            self.blocks = await self._blocks(network, options)
            await self._stack.enter_async_context(self.blocks)
        except BaseException:
            await self._stack.aclose()
            raise

    async def _blocks(self, network: BlockNetwork, options: MemberOptions) -> BlockPool:
        async with AsyncExitStack() as opened:
            local = await self._store(options, "shared" if options.shares_store else "local")
            opened.push_async_callback(local.close)
            offered = local if options.shares_store else await self._store(options, "offered")
            blocks = BlockPool(network, local=local, offered=offered, settings=options.settings)
            opened.pop_all()  # the pool closes them
        return blocks

    async def _store(
        self, options: MemberOptions, purpose: Literal["local", "offered", "shared"]
    ) -> TieredStore:
        memory_bytes, disk_bytes = options.store_bytes(purpose)
        memory = MemoryTier(memory_bytes, options.policy)
        if not disk_bytes:
            return TieredStore(memory)
        folder = self._folder(options) / purpose
        return TieredStore(memory, await DiskTier.open(folder, disk_bytes, options.policy))

    def _folder(self, options: MemberOptions) -> Path:
        assert options.folder is not None
        return options.folder / self.tenant / self.node


def _remove(folder: Path) -> None:
    """Remove a node's folder, and its tenant's if that is empty then."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()


_closing = threading.Lock()
_closes_at_end = False


def _close_before_threads_end() -> None:
    """Leaving a pool needs threads, which Python ends before it runs :mod:`atexit` callbacks."""
    global _closes_at_end
    with _closing:
        if not _closes_at_end:
            _closes_at_end = True
            threading._register_atexit(_close_all)  # type: ignore[attr-defined]


def _close_all() -> None:
    for member in list(_open_members):
        member.close()
