"""A pool of blocks that many nodes have together, as one of them uses it."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Sequence
from typing import Self, TypeVar

from innet.errors import KVError
from innet.kv.names import BlockKey
from innet.kv.pool.arguments import (
    checked_contents,
    checked_depth,
    checked_lease,
    checked_timeout,
    filled,
)
from innet.kv.pool.finding import Found
from innet.kv.pool.network import BlockNetwork, Contents
from innet.kv.pool.pool_parts import PoolParts
from innet.kv.pool.settings import PoolSettings
from innet.kv.pool.statistics import Cause, Place, PoolStatistics
from innet.kv.pool.tiers.memory import MemoryTier
from innet.kv.pool.tiers.tiered import TieredStore

Result = TypeVar("Result")


class BlockPool:
    """Blocks by their keys: whatever goes wrong with one is a miss, counted by its cause.

    All methods are called in one event loop, and as often at once as the caller likes: a window
    bounds how many blocks are on their way.

    Example::

        local, offered = TieredStore(MemoryTier(1 << 30)), TieredStore(MemoryTier(4 << 30))
        async with BlockPool(network, local=local, offered=offered) as pool:
            await pool.put(key, contents)
            found = await pool.get(key)      # None: compute it
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
            offered: for blocks that others ask this node for, as large as the network tells them;
                ``None``: it is home to no block. It may be ``local`` where homes get blocks when
                they are asked for: both then share its capacity, and a block that its home has got
                from here is the next that this node drops.
            settings: see there.

        Raises:
            KVError: ``offered`` is ``local``, and puts go to homes at once.
        """
        if offered is local and (settings is None or settings.puts == "at-once"):
            raise KVError(
                "one store cannot be both local and offered where puts go to homes at once: the "
                'node would keep its puts twice. Give two stores, or puts="when-asked"'
            )
        self._settings = PoolSettings() if settings is None else settings
        self._tenant = network.tenant
        self._counts = PoolStatistics()
        offered = TieredStore(MemoryTier(0)) if offered is None else offered
        self._parts = PoolParts(network, local, offered, self._settings, self._counts)
        self._open = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Serve others from now on, with what the disk has from before."""
        if not self._open:
            self._open = True
            await self._parts.start()

    async def close(self) -> None:
        """Serve nothing any more, and let the disks write what they have not."""
        if self._open:
            self._open = False
            await self._parts.close()

    async def put(self, key: BlockKey, contents: Contents, *, depth: int = 0) -> int:
        """Keep a block here and at its homes, as far as there is room.

        Of a name that is here already, the first block stays: equal names mean equal blocks.

        Args:
            key: of the block.
            contents: its bytes, in one dimension; they may change when this has ended.
            depth: its place in its prompt, from 0; the policy ``prefix-depth`` looks at it.

        Returns:
            How many homes have it.

        Raises:
            KVError: ``contents`` are no bytes in one dimension, or the pool is closed.
        """
        self._check(key)
        contents, depth = checked_contents(contents), checked_depth(depth)
        window, began_s = self._parts.window, _now_s()
        await window.enter()
        try:
            ends = await self._parts.giver.put(key, contents, depth)
        finally:
            window.leave()
        self._counts.puts += 1
        self._counts.put_bytes += contents.nbytes
        self._counts.store_times.add(_now_s() - began_s)
        copies = ends.count(None)
        self._counts.copies += copies
        if copies < len(ends):
            self._counts.lost_copies.update(end for end in ends if end is not None)
        return copies

    async def put_many(
        self, blocks: Sequence[tuple[BlockKey, Contents]], *, first_depth: int = 0
    ) -> list[int]:
        """Keep blocks that follow each other in a prompt; see :meth:`put`."""
        homes = [0] * len(blocks)
        left = iter(enumerate(blocks))

        async def put_one_by_one() -> None:
            for index, (key, contents) in left:
                homes[index] = await self.put(key, contents, depth=first_depth + index)

        # A task for each block would do nothing but wait for one of these.
        at_once = min(len(blocks), self._settings.window)
        await asyncio.gather(*(put_one_by_one() for _ in range(at_once)))
        return homes

    async def get(
        self, key: BlockKey, *, into: Contents | None = None, timeout_s: float | None = None
    ) -> Contents | None:
        """A block as it was put, or ``None``, whatever the cause.

        Args:
            key: of the block.
            into: where its bytes go; by default they are shared with the pool, and read-only.
            timeout_s: to the end of it all; by default the settings' one.

        Returns:
            The block's bytes; with ``into``, so much of its beginning.

        Raises:
            KVError: ``into`` is smaller than the block, or the pool is closed.
        """
        contents, _ = await self.look_up(key, timeout_s=timeout_s)
        return contents if contents is None or into is None else filled(into, contents)

    async def look_up(
        self, key: BlockKey, *, timeout_s: float | None = None
    ) -> tuple[Contents, Place] | tuple[None, Cause]:
        """A block and where it was found, or ``None`` and why it was not; else as :meth:`get`."""
        self._check(key)
        began_s = _now_s()
        found = await self._parts.finder.find(key, self._timeout(timeout_s))
        if not isinstance(found, Found):
            self._counts.misses[found] += 1
            return None, found
        contents = found.block.contents.view()
        contents.flags.writeable = False
        self._counts.hits[found.place] += 1
        self._counts.hit_bytes += contents.nbytes
        self._counts.load_times.add(_now_s() - began_s)
        return contents, found.place

    async def get_many(
        self, keys: Sequence[BlockKey], *, timeout_s: float | None = None
    ) -> list[Contents | None]:
        """Blocks as they were put, with ``None`` for each that is missed; see :meth:`get`."""
        return await asyncio.gather(*(self.get(key, timeout_s=timeout_s) for key in keys))

    def here(self, key: BlockKey) -> bool:
        """Whether this node itself has a block, so that it comes from nowhere else."""
        return self._parts.finder.is_here(key.name)

    async def exists(self, key: BlockKey, *, timeout_s: float | None = None) -> bool:
        """Whether a block is here, or at a home, or in a cache on the way there."""
        absence = await self._absence(key, timeout_s)
        self._count_lookup(int(absence is None), absence, 1)
        return absence is None

    async def exists_many(
        self, keys: Sequence[BlockKey], *, timeout_s: float | None = None
    ) -> list[bool]:
        """See :meth:`exists`."""
        return await asyncio.gather(*(self.exists(key, timeout_s=timeout_s) for key in keys))

    async def count_prefix(
        self, keys: Sequence[BlockKey], *, timeout_s: float | None = None
    ) -> int:
        """How many of ``keys``, from the first on, exist without a gap.

        Args:
            keys: of a prompt's blocks, in order.
            timeout_s: for all together; what is not known by then does not exist.
        """
        end_s = _now_s() + self._timeout(timeout_s)
        window = self._settings.window
        count = 0
        gap: Cause | None = None
        while count < len(keys) and gap is None:
            left_s = max(0.0, end_s - _now_s())
            absences = await asyncio.gather(
                *(self._absence(key, left_s) for key in keys[count : count + window])
            )
            found = next((i for i, each in enumerate(absences) if each), len(absences))
            gap = absences[found] if found < len(absences) else None
            count += found
        self._count_lookup(count, gap, len(keys))
        return count

    async def prefetch(
        self,
        keys: Sequence[BlockKey],
        *,
        nodes: Sequence[str] | None = None,
        timeout_s: float | None = None,
    ) -> list[bool]:
        """Bring blocks nearer before they are needed; for each, whether it is there now.

        Args:
            keys: of the blocks.
            nodes: members that are to keep them beside their homes; by default this node does.
            timeout_s: for each, when they come to this node; by default the settings' one.
        """
        if nodes is None:
            for key in keys:
                self._check(key)
            time_s = self._timeout(timeout_s)
            found = await asyncio.gather(*(self._parts.finder.find(key, time_s) for key in keys))
            return [isinstance(one, Found) for one in found]
        return await self._each(keys, lambda key: self._parts.giver.replicate(key, nodes))

    async def pin(self, keys: Sequence[BlockKey], lease_s: float) -> list[bool]:
        """Let blocks stay for ``lease_s``, whatever else has to go; for each, whether one does.

        They stay where they are, here and at their homes. Half of a tier can be pinned, and a
        lease is cut to the settings' ``longest_lease_s``; pinning again begins a new one.

        Raises:
            KVError: the lease is not above 0.
        """
        checked_s = checked_lease(lease_s)
        return await self._each(keys, lambda key: self._parts.pinning.pin(key, checked_s))

    async def unpin(self, keys: Sequence[BlockKey]) -> None:
        """End this node's leases."""
        await self._each(keys, self._parts.pinning.unpin)

    async def evict(self, keys: Sequence[BlockKey]) -> list[bool]:
        """Drop blocks here and at their homes; for each, whether it is gone from all of them.

        A home keeps what another node has pinned. Caches on the way may have it for a while.
        """
        return await self._each(keys, self._parts.pinning.evict)

    def statistics(self) -> PoolStatistics:
        """What this node's pool has done since it was opened, until now."""
        self._parts.home.hear()
        counted = copy.deepcopy(self._counts)
        counted.shared = self._parts.finder.shared
        local, offered = self._parts.local.tiers, self._parts.offered.tiers
        stores = {"shared": local} if local is offered else {"local": local, "home": offered}
        for what, store in stores.items():
            counted.tiers[f"{what} memory"] = store.memory.statistics()
            if store.disk is not None:
                counted.tiers[f"{what} disk"] = store.disk.statistics()
        return counted

    async def _each(
        self, keys: Sequence[BlockKey], work: Callable[[BlockKey], Awaitable[Result]]
    ) -> list[Result]:
        for key in keys:
            self._check(key)

        async def one(key: BlockKey) -> Result:
            async with self._parts.window:
                return await work(key)

        return await asyncio.gather(*map(one, keys))

    async def _absence(self, key: BlockKey, timeout_s: float | None) -> Cause | None:
        self._check(key)
        return await self._parts.finder.absence(key, self._timeout(timeout_s))

    def _count_lookup(self, found: int, gap: Cause | None, looked_up: int) -> None:
        """Count blocks of which the first ``found`` are there, and the next is not: ``gap``."""
        self._counts.looked_up += looked_up
        self._counts.found += found
        if gap is not None:
            self._counts.misses[gap] += 1
            if after := looked_up - found - 1:
                self._counts.misses[Cause.AFTER_GAP] += after

    def _timeout(self, timeout_s: float | None) -> float:
        return checked_timeout(timeout_s, self._settings.timeout_s)

    def _check(self, key: BlockKey) -> None:
        if not self._open:
            raise KVError("the pool is not open; use `async with`, or await start() first")
        if key.family.tenant != self._tenant:
            raise KVError(
                f"{key.name} is a block of another tenant than the pool's, {self._tenant}"
            )


def _now_s() -> float:
    """The time of the event loop, which may be a simulated one."""
    return asyncio.get_running_loop().time()
