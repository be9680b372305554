"""A pool of blocks that many nodes share, as one of them uses it."""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from innet.errors import KVError
from innet.kv.names import BlockKey
from innet.kv.pool.administration import Administration
from innet.kv.pool.announcements import Announcements
from innet.kv.pool.block_bytes import readable, writable
from innet.kv.pool.home import Home
from innet.kv.pool.network import BlockNetwork, Cause, Contents
from innet.kv.pool.pool_node import PoolNode
from innet.kv.pool.replication import Replicator
from innet.kv.pool.requests import MAX_NUMBER, Drop, Pin, Unpin
from innet.kv.pool.settings import PoolSettings
from innet.kv.pool.statistics import Place, PoolStatistics
from innet.kv.pool.store import Tier
from innet.kv.pool.tiered_store import TieredStore
from innet.kv.pool.tiers import MemoryTier
from innet.kv.pool.transfers import BlockTransfers, Found, NewBlock
from innet.kv.pool.waiting import (
    TimeLimit,
    count_to_gap,
    gather,
    is_seconds,
    now_s,
    wait_to_end,
)
from innet.kv.pool.window import BLOCKS_OF_REQUEST
from innet.node.messages import tenant_prefix

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from innet.kv.pool.block_bytes import BytesLike

Result = TypeVar("Result")


class BlockPool:
    """Blocks by their keys. A block that a get does not find is a miss, counted by its cause.

    All methods are called in one event loop, as many at once as the caller likes: a window bounds
    how many blocks are in flight.

    Example::

        local, offered = TieredStore(MemoryTier(1 << 30)), TieredStore(MemoryTier(4 << 30))
        async with BlockPool(network, local=local, offered=offered) as pool:
            await pool.put(key, contents)
            found = await pool.get(key)      # None: compute it

    Attributes:
        announcements: of blocks that are not put yet.
        administration: lists, purges and pins blocks of all processes.
    """

    def __init__(
        self,
        network: BlockNetwork,
        *,
        local: TieredStore,
        offered: TieredStore | None = None,
        settings: PoolSettings | None = None,
    ) -> None:
        """
        Args:
            network: of this node, for one tenant.
            local: for blocks that this node uses itself.
            offered: for blocks that this node is home to, as large as the network announces;
                ``None``: it is home to no block. Unless ``puts="at-once"`` it is ``local``: both
                uses share its capacity, and a block that its home has fetched is the next victim.
            settings: see there.

        Raises:
            KVError: the number of stores does not fit ``puts``.
        """
        settings = PoolSettings() if settings is None else settings
        if settings.shares_store:
            offered = local if offered is None else offered
        if (offered is local) != settings.shares_store:
            raise KVError(
                'one store cannot be both local and offered with puts="at-once": the node would '
                'keep its puts twice. Give two stores, or puts="when-asked"'
                if offered is local
                else f"with puts={settings.puts!r} a node has one store: give the same store as "
                "local and as offered"
            )
        self._settings = settings
        self._tenant = network.tenant
        self._node = PoolNode.of_stores(
            network, settings, local, offered or TieredStore(MemoryTier(0))
        )
        self._counts = self._node.counts
        self._home = Home(self._node)
        self._transfers = BlockTransfers(self._node, self._home)
        self.announcements = Announcements(self._node, self._home, self._transfers)
        self.administration = Administration(self._node, self._home.bulk)
        self._replicator = Replicator(self._node, self._home)
        self._serving: asyncio.Task[None] | None = None
        self._replicating: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Serve others from now on, with the blocks that the disk has from before."""
        if self._serving is None:
            self._serving = asyncio.ensure_future(self._home.serve())
            self._replicate()
            await self._node.store.start(f"{tenant_prefix(self._tenant)}/")

    def serve_again(self, replicas: int) -> None:
        """Serve this node's blocks over a network that has replaced the one before.

        Args:
            replicas: homes of a block there.
        """
        self._node.members.count_replicas(replicas)
        self._replicate()
        self._node.served.serve_again()

    def _replicate(self) -> None:
        """Keep as many copies of this node's blocks as there should be, from now on."""
        replicates = self._node.members.replicas > 1 and self._node.store.tiers.capacity_bytes
        if replicates and self._replicating is None:
            self._replicating = asyncio.ensure_future(self._replicator.run())

    async def hand_over(self) -> int:
        """Copy this node's blocks to the members that are their homes after it has left.

        This node serves the blocks meanwhile. The settings' ``copy_bytes_per_s`` limits the rate;
        the caller may cancel it.

        Returns:
            How many copies other members keep.

        Raises:
            KVError: the pool is not open.
        """
        self._require_open()
        return await self._replicator.hand_over()

    async def close(self) -> None:
        """Stop serving, and complete the pending writes of the disks.

        A cancelled caller waits for this as well, so that no disk stays open.
        """
        serving, self._serving = self._serving, None
        if serving is None:
            return
        serving.cancel()
        if self._replicating is not None:
            self._replicating.cancel()
            await asyncio.wait([self._replicating])
        node = self._node
        async with AsyncExitStack() as ending:  # each step runs, even if another one fails
            for store in node.stores:
                ending.push_async_callback(store.tiers.close)
            ending.callback(node.served.close)
            ending.callback(self._home.close)
            ending.callback(self.announcements.close)
            if node.directory is not None:
                ending.callback(node.directory.close)
            await wait_to_end(serving)
        if not serving.cancelled():
            serving.result()

    async def put(self, key: BlockKey, contents: BytesLike, *, depth: int = 0) -> int:
        """Keep a block here and at its homes, as far as there is room.

        A block whose name is here already is not replaced: equal names mean equal blocks.

        Args:
            key: of the block.
            contents: its bytes: of a ``bytes``, an array or another object with a buffer; they may
                change when this has ended.
            depth: its position in its prompt, from 0, for the policy ``prefix-depth``.

        Returns:
            How many homes have it.

        Raises:
            KVError: ``contents`` have no bytes, or the pool is closed.
        """
        return (await self._put(self._new_blocks([(key, contents)], [depth]), BLOCKS_OF_REQUEST))[0]

    async def put_label(self, key: BlockKey, contents: Contents) -> None:
        """:meth:`put` a block that describes others, now and whenever the pool's blocks are listed.

        Statistics do not count it.
        """
        self._require_open()

        async def put() -> None:
            await self._transfers.put(self._new_blocks([(key, contents)], [0]), 1)

        self._home.bulk.add_label(key, put)
        await put()

    async def get_uncounted(self, key: BlockKey, timeout_s: float) -> Contents | None:
        """:meth:`get` a block that statistics do not count."""
        self._check([key])
        found = await self._transfers.load(key, self._limit(timeout_s))
        return found.block.contents if isinstance(found, Found) else None

    async def put_many(
        self,
        blocks: Sequence[tuple[BlockKey, BytesLike]],
        *,
        depths: Sequence[int] | None = None,
    ) -> list[int]:
        """:meth:`put` several blocks.

        Args:
            blocks: as many as the caller likes.
            depths: of each; by default they follow each other in a prompt, from its beginning.
        """
        homes = [0] * len(blocks)
        new = self._new_blocks(blocks, range(len(blocks)) if depths is None else depths)
        largest = max((contents.nbytes for _, contents, _ in new), default=1)
        together = self._together(largest)
        size = 1 if self._settings.shares_store else together
        left = iter(range(0, len(blocks), size))

        async def put_in_turn() -> None:
            for start in left:
                homes[start : start + size] = await self._put(new[start : start + size], together)

        await gather([put_in_turn() for _ in self._in_turn(len(blocks), size, largest)])
        return homes

    async def get(
        self,
        key: BlockKey,
        *,
        into: WriteableBuffer | Contents | None = None,
        timeout_s: float | None = None,
        producer: str = "",
    ) -> Contents | None:
        """A block as it was put, or ``None``, whatever the cause.

        Args:
            key: of the block.
            into: receives its bytes; by default they are shared with the pool, and read-only.
            timeout_s: from the call to its end; by default the block has the settings' time, from
                the start of its fetch, for which it waits while the window is full.
            producer: a node that has announced the block: it is awaited there, until it is put or
                withdrawn, and fetched from there.

        Returns:
            The block's bytes; with ``into``, the part of it that they fill.

        Raises:
            KVError: ``into`` is smaller than the block or cannot be written to, or the pool is
                closed.
        """
        memory = None if into is None else writable(into)
        contents, _ = await self.look_up(key, timeout_s=timeout_s, producer=producer)
        if contents is None or memory is None:
            return contents
        if memory.nbytes < contents.nbytes:
            raise KVError(f"a block of {contents.nbytes} bytes does not fit into {memory.nbytes}")
        memory[: contents.nbytes] = contents
        return memory[: contents.nbytes]

    async def look_up(
        self, key: BlockKey, *, timeout_s: float | None = None, producer: str = ""
    ) -> tuple[Contents, Place] | tuple[None, Cause]:
        """A block and where it was found, or ``None`` and why it was not; else as :meth:`get`."""
        self._check([key])
        began_s = now_s()
        limit = self._limit(timeout_s)
        if producer:
            end_s = limit.end_of_block_s()
            found = await self._transfers.load_announced(key, producer, end_s)
        else:
            found = await self._transfers.load(key, limit)
        return self._counted(found, began_s)

    async def get_many(
        self, keys: Sequence[BlockKey], *, timeout_s: float | None = None
    ) -> list[Contents | None]:
        """:meth:`get` for several blocks, with one ``timeout_s`` for all together."""
        began_s = now_s()
        found: list[Contents | None] = [None] * len(keys)

        def take(place: int, load: Found | Cause) -> None:
            found[place], _ = self._counted(load, began_s)

        await self._load_many(keys, timeout_s, take)
        return found

    def batches(self, block_bytes: int) -> tuple[int, int]:
        """How to move many blocks of that size by calls of :meth:`put_many` or :meth:`get_many`,
        for callers that use the first blocks while the others are in flight.

        Returns:
            Blocks of each call, and calls at once.
        """
        window = self._node.window
        together = min(self._together(block_bytes), window.used_together(block_bytes))
        return together, math.ceil(window.blocks(block_bytes) / together)

    def here(self, key: BlockKey) -> bool:
        """Whether this node itself has a block."""
        return self._home.has(key.name)

    async def exists(self, key: BlockKey, *, timeout_s: float | None = None) -> bool:
        """Whether a block is here, at a home, or in a cache on the path there; ``timeout_s`` as of
        :meth:`get`."""
        self._check([key])
        absence = await self._transfers.absence(key, self._limit(timeout_s))
        self._counts.count_lookup(int(absence is None), absence, 1)
        return absence is None

    async def exists_many(
        self, keys: Sequence[BlockKey], *, timeout_s: float | None = None
    ) -> list[bool]:
        """:meth:`exists` for several blocks, with one ``timeout_s`` for all together."""
        return await gather([self.exists(key, timeout_s=timeout_s) for key in keys])

    async def count_prefix(
        self, keys: Sequence[BlockKey], *, timeout_s: float | None = None
    ) -> int:
        """How many of ``keys``, from the first on, exist without a gap.

        Args:
            keys: of a prompt's blocks, in order.
            timeout_s: for all together, by default each block has the settings' time; a block that
                is not found by then does not exist.
        """
        self._check(keys)
        absence = partial(self._transfers.absence, limit=self._limit(timeout_s))
        count, gap = await count_to_gap(keys, absence, self._settings.window)
        self._counts.count_lookup(count, gap, len(keys))
        return count

    async def prefetch(
        self,
        keys: Sequence[BlockKey],
        *,
        nodes: Sequence[str] | None = None,
        timeout_s: float | None = None,
    ) -> list[bool]:
        """Load blocks to a nearer node before they are needed; for each, whether it is there now.

        Args:
            keys: of the blocks.
            nodes: members that are to keep them beside their homes; by default this node.
            timeout_s: of what this node loads, all together; by default each block has the
                settings' time.

        Raises:
            KVError: ``nodes`` is a single string, or the pool is closed.
        """
        if isinstance(nodes, str):
            raise KVError(f"nodes are a sequence of members, not {nodes!r}: give nodes=[{nodes!r}]")
        if nodes is not None:
            return await self._each(keys, lambda key: self._transfers.replicate(key, nodes))
        here = [False] * len(keys)

        def take(place: int, load: Found | Cause) -> None:
            here[place] = isinstance(load, Found)

        await self._load_many(keys, timeout_s, take)
        return here

    async def pin(self, keys: Sequence[BlockKey], lease_s: float) -> list[bool]:
        """Protect blocks from eviction for ``lease_s``; for each, whether it is, at some place.

        They stay where they are, here and at their homes. Half of a tier can be pinned, and a
        lease is cut to the settings' ``longest_lease_s``; pinning again renews it.

        Raises:
            KVError: the lease is not above 0.
        """
        if not is_seconds(lease_s) or not lease_s:
            raise KVError(f"a lease has a length in seconds above 0, not {lease_s!r}")
        lease_ms = min(MAX_NUMBER, max(1, round(lease_s * 1000)))

        async def pin(key: BlockKey) -> bool:
            self._home.drain_kept()
            here = await self._home.pin(key.name, lease_s)
            return None in await self._node.peers.request_homes(key, Pin(key, lease_ms)) or here

        return await self._each(keys, pin)

    async def unpin(self, keys: Sequence[BlockKey]) -> None:
        """End this node's leases."""

        async def unpin(key: BlockKey) -> None:
            self._home.unpin(key.name, self._node.network.node)
            await self._node.peers.request_homes(key, Unpin(key))

        await self._each(keys, unpin)

    async def evict(self, keys: Sequence[BlockKey]) -> list[bool]:
        """Drop blocks here and at their homes; for each, whether it is gone from all of them.

        A home keeps a block that another node has pinned. Caches on the path may have it for a
        while.
        """

        async def evict(key: BlockKey) -> bool:
            self._home.drain_kept()
            here = self._home.drop(key.name, self._node.network.node)
            ends = await self._node.peers.request_homes(key, Drop(key))
            return here and all(end is None for end in ends)

        return await self._each(keys, evict)

    def watch(self, listener: Callable[[int, str, Tier | None], None]) -> None:
        """Report the blocks that are here, and from now on each change of a block's tier.

        Args:
            listener: called with the number of the store (a node has one or two), the block's name
                and its tier there; ``None``: it is gone from that store.
        """
        for number, store in enumerate(self._node.stores):
            store.watch(partial(listener, number))

    def statistics(self) -> PoolStatistics:
        """The counters of this node's pool since it was opened."""
        self._home.drain_requests()
        counted = copy.deepcopy(self._counts)
        local, offered = self._node.local.tiers, self._node.store.tiers
        stores = {"shared": local} if local is offered else {"local": local, "home": offered}
        for what, store in stores.items():
            for tier, figures in store.statistics().items():
                counted.tiers[f"{what} {tier}"] = figures
        return counted

    async def _load_many(
        self,
        keys: Sequence[BlockKey],
        timeout_s: float | None,
        take: Callable[[int, Found | Cause], None],
    ) -> None:
        """Pass the result of each load to ``take`` when it is there, with its place in ``keys``."""
        self._check(keys)
        limit = self._limit(timeout_s)
        self._home.drain_kept()
        far = list[int]()
        near = list[int]()
        for place, key in enumerate(keys):
            (far if self._transfers.is_far(key) else near).append(place)
        largest = self._node.window.size_of(keys[place].family for place in far)
        size = self._together(largest)
        left = iter(range(0, len(far), size))

        async def load_near(place: int) -> None:
            take(place, await self._transfers.load(keys[place], limit))

        async def load_far() -> None:
            for start in left:
                places = far[start : start + size]
                loads = await self._transfers.load_together([keys[at] for at in places], limit)
                for place, load in zip(places, loads, strict=True):
                    take(place, load)

        await gather(
            [*map(load_near, near), *(load_far() for _ in self._in_turn(len(far), size, largest))]
        )

    def _together(self, block_bytes: int) -> int:
        """Blocks of one request or fetch."""
        most = self._node.network.most_kept_at_once
        return min(most, self._node.window.together(block_bytes))

    def _in_turn(self, blocks: int, together: int, block_bytes: int) -> range:
        """As many tasks as keep the window full with requests of ``together`` blocks."""
        in_flight = min(blocks, self._node.window.blocks(block_bytes))
        return range(math.ceil(in_flight / together))

    def _counted(
        self, found: Found | Cause, began_s: float
    ) -> tuple[Contents, Place] | tuple[None, Cause]:
        """The result of a load, which is counted."""
        if not isinstance(found, Found):
            self._counts.misses[found] += 1
            return None, found
        contents = found.block.contents
        if contents.flags.writeable:
            contents = contents.view()
            contents.flags.writeable = False
        self._counts.hits[found.place] += 1
        self._counts.hit_bytes += contents.nbytes
        self._counts.load_times.add(now_s() - began_s)
        return contents, found.place

    def _new_blocks(
        self, blocks: Sequence[tuple[BlockKey, BytesLike]], depths: Sequence[int]
    ) -> list[NewBlock]:
        """The blocks, once all are checked; the window records their sizes.

        Raises:
            KVError: a block cannot be put, or the pool is closed.
        """
        self._check([key for key, _ in blocks])
        new = []
        for (key, contents), depth in zip(blocks, depths, strict=True):
            if not 0 <= depth <= MAX_NUMBER:
                raise KVError(f"the depth of a block is from 0 to {MAX_NUMBER}, not {depth}")
            new.append((key, readable(contents), depth))
        self._node.window.on_seen([(key.family, contents.nbytes) for key, contents, _ in new])
        return new

    async def _put(self, blocks: Sequence[NewBlock], together: int) -> list[int]:
        """:meth:`put` blocks whose homes keep them by one request; others may join it."""
        self._require_open()
        began_s, window = now_s(), self._node.window
        sizes = [contents.nbytes for _, contents, _ in blocks]
        count = window.places(max(sizes), len(blocks))
        announced = self.announcements.on_put(blocks)
        if not window.try_enter(count):
            try:
                await window.enter(places=count)
            except asyncio.CancelledError:
                for name in announced:
                    self._node.served.refuse(name)
                raise
        try:
            ends = await self._transfers.put(blocks, together)
        finally:
            window.leave(count)
        self._counts.count_puts(ends, sum(sizes), now_s() - began_s)
        return [each.count(None) for each in ends]

    async def _each(
        self, keys: Sequence[BlockKey], work: Callable[[BlockKey], Awaitable[Result]]
    ) -> list[Result]:
        self._check(keys)

        async def one(key: BlockKey) -> Result:
            async with self._node.window:
                return await work(key)

        return await gather([one(key) for key in keys])

    def _limit(self, timeout_s: float | None) -> TimeLimit:
        """Of a call: its timeout, or by default that of the settings for each block."""
        if timeout_s is None:
            return TimeLimit(block_s=self._settings.timeout_s)
        if not is_seconds(timeout_s):
            raise KVError(f"a timeout is a number of seconds from 0 on, not {timeout_s!r}")
        return TimeLimit(now_s() + timeout_s)

    def _require_open(self) -> None:
        if self._serving is None:
            raise KVError("the pool is not open; use `async with`, or await start() first")

    def _check(self, keys: Iterable[BlockKey]) -> None:
        self._require_open()
        for key in keys:
            if key.family.tenant != self._tenant:
                raise KVError(
                    f"{key.name} is a block of another tenant than the pool's, {self._tenant}"
                )
