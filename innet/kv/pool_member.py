"""This process's membership of a pool of blocks, on a thread beside the program."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
)
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, Unpack

from innet.errors import KVError
from innet.extras import require
from innet.kv.address import PoolIsDown, network_at, network_use, require_network
from innet.kv.events.endpoints import Endpoints
from innet.kv.labels import EVERYTHING, PoolInventory, read_labels
from innet.kv.loop_thread import LoopThread
from innet.kv.pool import BlockPool, DiskTier, LayeredTier, MemoryTier, TieredStore
from innet.kv.pool.administration import BulkProgress, BulkResult
from innet.kv.pool.inventory import BlockFilter
from innet.kv.pool.network import BlockNetwork
from innet.kv.pool.object_storage import ObjectStorage, is_url
from innet.kv.pool.peers import await_members
from innet.kv.pool.statistics import PoolStatistics
from innet.kv.pool_options import RUN_EVENTS, MemberOptions, PoolOptions, StoreBytes
from innet.kv.replaceable_network import ReplaceableNetwork
from innet.kv.tenant import Tenant
from innet.kv.worker_network import UNATTACHED, open_unattached_network, open_worker_network
from innet.node.runtime import network_threads
from innet.worker import Worker, current_worker
from innet.worker.process_end import before_close, no_more_before_close

if TYPE_CHECKING:
    from innet.kv.events.source import BlockEvents
    from innet.worker.controller_connection import WorkerPools

OpenNetwork = Callable[[int, int], AbstractAsyncContextManager[BlockNetwork]]
"""Joins a pool, offering that many bytes and counting that many replicas, in the event loop in
which it is called."""

_CLOSE_TIMEOUT_S: Final = 10.0
_STANDING_TIMEOUT_S: Final = 5.0
"""Wait for the first member of a standing pool: all members may be restarting."""
_PAUSE_S: Final = 0.1
_COUNTERS_TIMEOUT_S: Final = 0.5
"""The node's answer to a status request waits this long for the counters."""
_TENANT_DIGITS: Final = 8
EVENT_SUFFIX: Final = ".kv-events"
_open_members: weakref.WeakSet[PoolMember] = weakref.WeakSet()
_log = logging.getLogger(__name__)


class PoolMember(LoopThread):
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
        is_waiting: the standing pool is down; this process joins it later.
        events: of this process's blocks, if they are published.
        event_endpoints: addresses at which they are published.
    """

    blocks: BlockPool
    tenant: str
    node: str
    is_waiting: bool
    events: BlockEvents | None = None
    event_endpoints: Endpoints | None = None
    _network: BlockNetwork | ReplaceableNetwork

    def __init__(
        self, open_network: OpenNetwork, options: MemberOptions, *, tenant: str, node: str
    ) -> None:
        """Most programs use :meth:`open`.

        Args:
            open_network: joins the pool, once this member's disks are open.
            options: checked.
            tenant: see :attr:`tenant`.
            node: of this process.

        Raises:
            KVError: the folder for blocks on disk cannot be used, or the pool cannot be joined.
        """
        super().__init__(f"the pool of tenant {options.tenant}")
        self._stack = AsyncExitStack()
        self._membership = AsyncExitStack()
        """Leaves the present network."""
        self._publication = AsyncExitStack()
        """Ends the publication of events."""
        self._open_network = open_network
        self._leaving = threading.Lock()
        self._on_left = ExitStack()
        self._pools: Callable[[], WorkerPools] | None = None
        """The pools of this process's worker, if it has one."""
        self._options = options
        self.tenant, self.node, self.is_waiting = tenant, node, node == UNATTACHED
        self._replicas_there: Callable[[], int | None] = lambda: None
        """Waits for the members of a standing pool; their number of replicas."""
        self._counters = self._counters_of(PoolStatistics())
        try:
            self.run(self._start())
        except BaseException:
            super().close()
            raise
        _open_members.add(self)
        _close_before_threads_end()

    @classmethod
    def open(cls, **options: Unpack[PoolOptions]) -> PoolMember:
        """Join a tenant's pool over this worker's node, or the standing pool at an address.

        Args:
            options: see :class:`innet.kv.pool_options.PoolOptions`.

        Raises:
            EmulationError: this process was not started by ``innet run``, and has no address.
            HostTaken: another process of this host has its node, or this one was forked from it.
            KVError: an option is invalid, this process is in that pool already, or there is no
                standing pool of the tenant at the address.
            SecurityError: the tenant's secret or the token file cannot be used.
        """
        return cls._open(MemberOptions.of(options), waits=False)

    @classmethod
    def open_or_wait(cls, **options: Unpack[PoolOptions]) -> PoolMember:
        """As :meth:`open`; while the standing pool is down, a member that joins it later.

        Until then gets are misses, and puts stay in this process. It logs why it waits, and when it
        has joined. A pool that is up and refuses this process is an error.

        Args:
            options: see :class:`innet.kv.pool_options.PoolOptions`.

        Raises:
            InnetError: see :meth:`open`.
        """
        return cls._open(MemberOptions.of(options), waits=True)

    @classmethod
    def _open(cls, options: MemberOptions, waits: bool) -> PoolMember:
        with ExitStack() as on_left:
            if options.address is None:
                worker = current_worker()
                tenant = _tenant_of(options) or tenant_of_job(worker, options.tenant)
                return cls._joined(worker, tenant, options, on_left)
            standing = _tenant_of(options)
            assert standing is not None
            network = network_at(options.address, options.token_file)
            if not waits:
                require_network(network, options.address, options.token_file)
            attachment = network_use.enter(network, waits)
            on_left.callback(network_use.leave)
            replicas_there = partial(_replicas_there, standing, options.address)
            has_joined = attachment.is_attached
            try:
                if has_joined:
                    replicas_there()
            except PoolIsDown as error:
                if not waits:
                    raise
                _log.warning("%s. This process joins the pool when it has one", error)
                has_joined = False
            if has_joined:
                member = cls._joined(current_worker(), standing, options, on_left)
            else:
                member = cls._waiting(standing, options, on_left)
            member._replicas_there = replicas_there
            attachment.watch(member, has_joined=has_joined)
            member._on_left.callback(attachment.unwatch, member)
            return member

    @classmethod
    def _joined(
        cls, worker: Worker, tenant: Tenant, options: MemberOptions, on_left: ExitStack
    ) -> PoolMember:
        """Join over the node of this process's worker; ``on_left`` is closed after leaving."""
        worker.pools.require_new(tenant.component)  # before its disks are opened twice
        options = options.with_replicas(worker.pools.replicas(tenant.component))
        with network_threads(worker.config.processors):  # engines bind the threads that call this
            member = cls(
                lambda capacity, replicas: open_worker_network(
                    current_worker(),
                    tenant,
                    capacity_bytes=capacity,
                    weight=options.weight,
                    replicas=replicas,
                ),
                options,
                tenant=tenant.component,
                node=worker.config.node,
            )
        member._pools = lambda: current_worker().pools
        worker.pools.count(member.tenant, member.counters)
        member._close_with_process(on_left)
        return member

    @classmethod
    def _waiting(cls, tenant: Tenant, options: MemberOptions, on_left: ExitStack) -> PoolMember:
        """Open the member of a pool that is down, over a node without a network."""

        def open_network(capacity: int, replicas: int) -> AbstractAsyncContextManager[BlockNetwork]:
            if not has_opened.is_set():
                has_opened.set()
                return open_unattached_network(tenant)
            return open_worker_network(
                current_worker(),
                tenant,
                capacity_bytes=capacity,
                weight=options.weight,
                replicas=replicas,
            )

        has_opened = threading.Event()
        member = cls(open_network, options, tenant=tenant.component, node=UNATTACHED)
        member._close_with_process(on_left)
        return member

    def _close_with_process(self, on_left: ExitStack) -> None:
        before_close(self.close)
        on_left.callback(no_more_before_close, self.close)
        self._on_left = on_left.pop_all()

    def counters(self) -> dict[str, Any]:
        """The pool's counters for metrics; the last known ones while its thread is busy."""

        async def read() -> dict[str, Any]:
            return self._counters_of(self.blocks.statistics())

        with contextlib.suppress(KVError, TimeoutError):
            self._counters = self.submit(read()).result(_COUNTERS_TIMEOUT_S)
        return self._counters

    def _counters_of(self, statistics: PoolStatistics) -> dict[str, Any]:
        options = self._options
        return statistics.counters(options.tenant, options.engine, options.model_name)

    async def members(self, at_least: int = 0, timeout_s: float = 10.0) -> tuple[str, ...]:
        """The nodes that offer memory, as this process knows them, sorted by name.

        A block's homes depend on them: a process that puts blocks before it knows all members puts
        them where others do not look. Like :attr:`blocks`' methods, it is called on the pool's
        thread.

        Args:
            at_least: wait until there are that many.
            timeout_s: of the wait; after it, the members present are returned, and the log has a
                warning.
        """
        enough = await await_members(self._network, lambda there: len(there) >= at_least, timeout_s)
        members = tuple(sorted(self._network.members()))
        if not enough:
            _log.warning(
                "the pool has %d of %d members after %g s: %s. Members that join later do not find "
                "all blocks that are put before",
                len(members),
                at_least,
                timeout_s,
                ", ".join(members) or "none",
            )
        return members

    async def inventory(self, blocks: BlockFilter = EVERYTHING) -> PoolInventory:
        """The blocks of all processes of the pool, with the models that they are of.

        Args:
            blocks: of interest; by default all.
        """
        found = await self.blocks.administration.inventory(blocks, await self._processes())
        labels = await read_labels(self.blocks, self.tenant, found.families())
        return PoolInventory(found, labels)

    async def purge(
        self, blocks: BlockFilter, *, progress: BulkProgress | None = None
    ) -> BulkResult:
        """Drop blocks from all tiers of all processes, and from the caches of the network.

        Pinned blocks are dropped as well. What an engine computes later is kept again: where its
        blocks are wrong, mend the engine first.

        Args:
            blocks: all of these.
            progress: see :data:`innet.kv.pool.administration.BulkProgress`.

        Raises:
            ControlError: the switches' caches could not be emptied; the processes have dropped the
                blocks.
        """
        nodes = await self._processes()
        result = await self.blocks.administration.purge(blocks, nodes, progress=progress)
        if self._pools is not None:
            await asyncio.to_thread(self._pools().empty_caches, self.tenant)
        return result

    async def pin_matching(self, blocks: BlockFilter, lease_s: float) -> BulkResult:
        """Protect blocks from eviction at all processes, for ``lease_s``; 0: no longer.

        See :meth:`innet.kv.pool.administration.Administration.pin`.
        """
        nodes = await self._processes()
        return await self.blocks.administration.pin(blocks, lease_s, nodes)

    async def _processes(self) -> list[str]:
        """The nodes of all processes of the pool, as far as they are known."""
        if self._pools is None:
            return []
        return await asyncio.to_thread(self._pools().processes, self.tenant)

    def close(self) -> None:
        """Leave the pool; blocks that only this process has are lost. Safe to call twice."""
        if not self._leaving.acquire(blocking=False):
            return
        _open_members.discard(self)
        with contextlib.suppress(KVError, TimeoutError):  # a forked child has nothing to leave
            self.submit(self._stack.aclose()).result(_CLOSE_TIMEOUT_S)
        super().close()
        self._on_left.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _start(self) -> None:
        options = self._options
        try:
            async with AsyncExitStack() as opened:
                local, offered = await self._open_stores(opened)
                self._stack.push_async_callback(lambda: self._membership.aclose())
                network = await self._membership.enter_async_context(self._opened_network())
                # A standing pool may come back under another launcher.
                lasts = options.address is not None
                self._network = ReplaceableNetwork(network) if lasts else network
                if options.secret is None:
                    # Nobody knows the job's own secret after the job: its blocks would be useless.
                    for folder in (options.folder, options.objects_url):
                        if folder:
                            below = self._below(folder)
                            self._stack.push_async_callback(asyncio.to_thread, _remove, below)
                self.blocks = BlockPool(
                    self._network, local=local, offered=offered, settings=options.settings
                )
                opened.pop_all()  # the pool closes them
            await self._stack.enter_async_context(self.blocks)
            if options.events:
                require("msgpack", "publishing KV events")
                from innet.kv.events.source import BlockEvents

                self.events = BlockEvents(self.node, options.model_name)
                self._stack.push_async_callback(self._publication.aclose)
                if not self.is_waiting or options.events != RUN_EVENTS:
                    await self._publish(self.events)
                self._stack.callback(self.events.clear)
                self.blocks.watch(self.events.on_tier)
        except BaseException:
            await self._stack.aclose()
            raise

    def _opened_network(self) -> AbstractAsyncContextManager[BlockNetwork]:
        """The pool over the node of this process's worker."""
        sizes = self._options.store_bytes("offered")
        # The object storage has the blocks of the disk as well.
        capacity = sizes.memory + max(sizes.disk, sizes.objects)
        return self._open_network(capacity, self._options.settings.replicas)

    async def _publish(self, events: BlockEvents) -> None:
        from innet.kv.events.publisher import publishing

        address, replay = self._options.events, self._options.events_replay
        if address == RUN_EVENTS:
            path = event_socket(current_worker().config.control_socket, self.tenant)
            address, replay = f"ipc://{path}", ""
        self.event_endpoints = await self._publication.enter_async_context(
            publishing(events, Endpoints.of(address, replay))
        )

    def on_network_lost(self) -> None:
        """See :class:`innet.kv.address.NetworkUser`."""

        async def lose() -> None:
            assert isinstance(self._network, ReplaceableNetwork)
            self._network.lose()

        with contextlib.suppress(KVError):  # it is closed
            self.submit(lose())

    def on_network_back(self) -> None:
        """See :class:`innet.kv.address.NetworkUser`."""
        self.run(self._rejoin())
        current_worker().pools.count(self.tenant, self.counters)

    async def _rejoin(self) -> None:
        """Go on over the node of another worker."""
        assert isinstance(self._network, ReplaceableNetwork)
        replicas = await asyncio.to_thread(self._replicas_there)
        self._options = self._options.with_replicas(replicas)
        before, self._membership = self._membership, AsyncExitStack()
        try:
            network = await self._membership.enter_async_context(self._opened_network())
        except BaseException:
            self._membership = before
            raise
        self._network.replace(network)
        self.node, self.is_waiting = network.node, False
        self.blocks.serve_again(self._options.settings.replicas)
        if self.events is not None:
            self.events.member = self.node
            if self._options.events == RUN_EVENTS:
                await self._publication.aclose()  # it may have had the path of the next one
                await self._publish(self.events)
        await before.aclose()

    async def _open_stores(self, opened: AsyncExitStack) -> tuple[TieredStore, TieredStore]:
        """The local and the offered one, which may be the same; ``opened`` closes them."""
        shares = self._options.shares_store
        local = await self._store("shared" if shares else "local")
        opened.push_async_callback(local.close)
        if shares:
            return local, local
        offered = await self._store("offered")
        opened.push_async_callback(offered.close)
        return local, offered

    async def _store(self, purpose: Literal["local", "offered", "shared"]) -> TieredStore:
        options = self._options
        sizes = options.store_bytes(purpose)
        if self.is_waiting and sizes.disk:
            _log.warning(
                "the folder of this process's disk is named after its node, which it has not yet: "
                "it keeps blocks in memory alone. Start it again when the pool is up"
            )
            sizes = StoreBytes(sizes.memory, 0, 0)
        memory = MemoryTier(sizes.memory, options.policy)
        if not sizes.disk:
            return TieredStore(memory)
        assert options.folder is not None
        is_saved = options.secret is not None
        folder = self._below(options.folder, purpose)
        disk = await DiskTier.open(folder, sizes.disk, options.policy)
        if not sizes.objects:
            return TieredStore(memory, disk, is_saved)
        url = self._below(options.objects_url, purpose)
        try:
            objects = await DiskTier.open(url, sizes.objects, options.policy)
        except BaseException:
            await disk.close()
            raise
        return TieredStore(memory, LayeredTier(disk, objects), is_saved)

    def _below(self, folder: Path | str, *parts: str) -> Path | str:
        parts = (self.tenant, self.node, *parts)
        if is_url(folder):
            return "/".join((str(folder).rstrip("/"), *parts))
        return Path(folder, *parts)


def _tenant_of(options: MemberOptions) -> Tenant | None:
    """The tenant; ``None``: the job's own."""
    if options.secret is None:
        return None
    if isinstance(options.secret, bytes):
        return Tenant(options.tenant, options.secret)
    return Tenant.from_file(options.tenant, options.secret)


def _replicas_there(tenant: Tenant, address: str) -> int | None:
    """The number of replicas of a standing pool, once its first member has joined.

    Raises:
        PoolIsDown: no pool has a member.
        KVError: others have, and this one has none.
        ControlError: the controller does not answer.
    """
    pools = current_worker().pools
    end_s = time.monotonic() + _STANDING_TIMEOUT_S
    while not pools.members(tenant.component):
        if time.monotonic() >= end_s:
            if not pools.has_any():
                raise PoolIsDown(f"the network {address} is up, and no pool there has a member yet")
            raise KVError(
                f"the pool at {address} has no tenant {tenant.name} with this secret. Give the "
                "same file to its tenant in the file of `innet kv serve`"
            )
        time.sleep(_PAUSE_S)
    return pools.replicas(tenant.component)


def _remove(folder: Path | str) -> None:
    """Remove a node's folder, and its tenant's if that is empty then."""
    if not isinstance(folder, Path):
        ObjectStorage(folder).remove_all()
        return
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


def event_socket(control_socket: Path, tenant: str) -> Path:
    """Where a host of a run publishes the events of a tenant's blocks.

    Args:
        control_socket: of the host's node.
        tenant: the component that stands for the tenant in names.
    """
    return control_socket.with_suffix(f".{tenant[:_TENANT_DIGITS]}{EVENT_SUFFIX}")


def tenant_of_job(worker: Worker, name: str) -> Tenant:
    """The tenant of that name within the worker's job: its blocks cannot be used after the job."""
    return Tenant(name, worker.pool_secret)
