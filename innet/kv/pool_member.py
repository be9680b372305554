"""This process's membership of a pool of blocks, on a thread beside the program."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import shutil
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
)
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, Unpack

from innet._native import _core
from innet.collectives.objects import PACKET_OVERHEAD_BYTES
from innet.errors import KVError
from innet.extras import require
from innet.kv.address import network_at, network_use
from innet.kv.events.endpoints import Endpoints
from innet.kv.labels import EVERYTHING, PoolInventory, read_labels
from innet.kv.loop_thread import LoopThread
from innet.kv.node_network import NetworkOptions, NodeBlockNetwork
from innet.kv.pool import BlockPool, DiskTier, LayeredTier, MemoryTier, TieredStore
from innet.kv.pool.administration import BulkProgress, BulkResult
from innet.kv.pool.inventory import BlockFilter
from innet.kv.pool.network import BlockNetwork
from innet.kv.pool.object_storage import ObjectStorage, is_url
from innet.kv.pool.peers import await_members
from innet.kv.pool.statistics import PoolStatistics
from innet.kv.pool_options import RUN_EVENTS, MemberOptions, PoolOptions
from innet.kv.replaceable_network import ReplaceableNetwork
from innet.kv.tenant import Tenant
from innet.node.messages import MAX_TENANT_NAME, PoolReport
from innet.node.runtime import network_threads
from innet.topology.routes import Routes
from innet.worker import Worker, current_worker
from innet.worker.collector import AskedObjects, LoopCollector

if TYPE_CHECKING:
    from innet.kv.events.source import BlockEvents
    from innet.worker.controller_connection import WorkerPools

OpenNetwork = Callable[[int], AbstractAsyncContextManager[BlockNetwork]]
"""Joins a pool, offering that many bytes, in the event loop in which it is called."""

DEFAULT_WEIGHT: Final = 1
_PROCESS_BITS: Final = 64
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
        events: of this process's blocks, if they are published.
        event_endpoints: addresses at which they are published.
    """

    blocks: BlockPool
    tenant: str
    node: str
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
        self.tenant, self.node = tenant, node
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
        checked = MemberOptions.of(options)
        with ExitStack() as on_left:
            if checked.address is not None:
                network = network_at(checked.address, checked.token_file)
                attachment = network_use.enter(network)
                on_left.callback(network_use.leave)
            member = cls._joined(checked, on_left)
            if checked.address is not None:
                attachment.watch(member)
                member._on_left.callback(attachment.unwatch, member)
            return member

    @classmethod
    def _joined(cls, options: MemberOptions, on_left: ExitStack) -> PoolMember:
        """Join over the node of this process's worker; ``on_left`` is closed after leaving."""
        worker = current_worker()
        if options.secret is None:
            tenant = tenant_of_job(worker, options.tenant)
        elif isinstance(options.secret, bytes):
            tenant = Tenant(options.tenant, options.secret)
        else:
            tenant = Tenant.from_file(options.tenant, options.secret)
        if options.address is not None:
            _await_members(worker, tenant, options.address)
        worker.pools.require_new(tenant.component)  # before its disks are opened twice
        options = options.with_replicas(worker.pools.replicas(tenant.component))
        with network_threads(worker.config.processors):  # engines bind the threads that call this
            member = cls(
                lambda capacity: open_worker_network(
                    current_worker(),
                    tenant,
                    capacity_bytes=capacity,
                    weight=options.weight,
                    replicas=options.settings.replicas,
                ),
                options,
                tenant=tenant.component,
                node=worker.config.node,
            )
        member._pools = lambda: current_worker().pools
        worker.pools.count(member.tenant, member.counters)
        worker.before_close(member.close)
        on_left.callback(worker.no_more_before_close, member.close)
        member._on_left = on_left.pop_all()
        return member

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
        return self._open_network(sizes.memory + max(sizes.disk, sizes.objects))

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
        before, self._membership = self._membership, AsyncExitStack()
        try:
            network = await self._membership.enter_async_context(self._opened_network())
        except BaseException:
            self._membership = before
            raise
        self._network.replace(network)
        self.node = network.node
        self.blocks.serve_again()
        if self.events is not None and self._options.events == RUN_EVENTS:
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


def _await_members(worker: Worker, tenant: Tenant, address: str) -> None:
    """Let the members of a standing pool join first: they say how many replicas it has."""
    end_s = time.monotonic() + _STANDING_TIMEOUT_S
    while not worker.pools.members(tenant.component):
        if time.monotonic() >= end_s:
            raise KVError(
                f"the pool at {address} has no tenant {tenant.name} with this secret. Give the "
                "same file to its tenant in the file of `innet kv serve`"
            )
        time.sleep(_PAUSE_S)


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


class LoopHost:
    """A :class:`~innet.kv.node_network.BlockHost` of the running event loop."""

    def __init__(self, node: _core.Node, asked_objects: AskedObjects) -> None:
        """``asked_objects`` is the node's."""
        self.node = node
        self.collector = LoopCollector(node)
        self.asked_objects = asked_objects


@asynccontextmanager
async def open_worker_network(
    worker: Worker,
    tenant: Tenant,
    *,
    capacity_bytes: int = 0,
    weight: int = DEFAULT_WEIGHT,
    replicas: int = 1,
) -> AsyncIterator[NodeBlockNetwork]:
    """Join the tenant's pool, and leave it at the end of the block.

    Example::

        tenant = Tenant.from_file("acme", Path("acme.secret"))
        async with open_worker_network(current_worker(), tenant, capacity_bytes=1 << 30) as network:
            await network.publish(key.name, contents)

    Args:
        worker: of this process.
        tenant: whose blocks they are.
        capacity_bytes: of memory that this process offers to the other members; 0: none.
        weight: the pool's part of the switches' memory, beside other pools' and jobs' weights.
        replicas: homes of each block, the same for all members.

    Raises:
        KVError: this process has a pool of that tenant already.
        ControlError: the controller refuses, or does not answer.
    """
    part = PoolReport(
        tenant=tenant.component,
        key=tenant.public_key,
        capacity_bytes=capacity_bytes,
        weight=weight,
        replicas=replicas,
        name=tenant.name[:MAX_TENANT_NAME],
    )

    async def ask_members() -> Mapping[str, int]:
        return await asyncio.to_thread(worker.pools.members, tenant.component)

    @cache
    def distance(member: str) -> int:
        return routes().distance(worker.config.node, member)

    routes = cache(lambda: Routes(worker.topology()))
    host = LoopHost(worker.node, worker.asked_objects)
    network = NodeBlockNetwork(
        worker.config.node,
        host,
        tenant,
        ask_members,
        NetworkOptions(
            weight=weight,
            packet_bytes=worker.block_segment_bytes + PACKET_OVERHEAD_BYTES,
            process=secrets.randbits(_PROCESS_BITS),
            distance=distance,
            neighbours=frozenset(face.peer for face in worker.config.faces),
        ),
    )
    try:
        await asyncio.to_thread(worker.pools.open, part)
        try:
            await network.start()
            yield network
        finally:
            await network.stop()
            await asyncio.to_thread(worker.pools.leave, tenant.component)
    finally:
        host.collector.close()
