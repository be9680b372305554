"""A store's memory with what is behind it: a disk, an object storage, or both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from innet.kv.pool.disk_tier import DiskTier
from innet.kv.pool.network import Sealed
from innet.kv.pool.statistics import TierStatistics
from innet.kv.pool.tiers import BlockTier, Entry, MemoryTier


class LayeredTier:
    """A disk with an object storage behind it, used as one tier.

    A block goes to both when it leaves memory, so blocks survive the disk, and the disk's victims
    need not be read. This uploads no more than passing victims on, because a full disk evicts a
    block for each one that it takes.

    Attributes:
        disk: is read first.
        objects: the lower tier.
        on_gone: called with the name of a block that both have evicted or lost, not removed.
    """

    def __init__(self, disk: DiskTier, objects: DiskTier) -> None:
        self.disk = disk
        self.objects = objects
        self.on_gone: Callable[[str], None] = lambda name: None
        for tier in self._tiers:
            tier.on_gone = self._on_gone

    def __contains__(self, name: str) -> bool:
        """Whether either has the block; this does not count as a use."""
        return name in self.disk or name in self.objects

    @property
    def capacity_bytes(self) -> int:
        """Capacity for different blocks: the object storage also has the blocks of the disk."""
        return max(tier.capacity_bytes for tier in self._tiers)

    def names(self) -> list[str]:
        """All blocks."""
        return list(dict.fromkeys((*self.disk.names(), *self.objects.names())))

    def entry(self, name: str) -> Entry[Any] | None:
        """The entry of a block in the first tier that has it."""
        return self._first_with(name).entry(name)

    def depth(self, name: str) -> int:
        """A block's position in its prompt; 0 for one that is not here."""
        return self._first_with(name).depth(name)

    async def get(self, name: str) -> Sealed | None:
        """The block as written, which the caller verifies; ``None``: neither can be read."""
        found = await self.disk.get(name)
        return await self.objects.get(name) if found is None else found

    def put(self, name: str, block: Sealed, depth: int) -> None:
        """Keep a block in both, where there is room for it."""
        for tier in self._tiers:
            tier.put(name, block, depth)

    def pin(self, name: str) -> bool:
        """Protect a block from eviction; false: it is not here, or too much is pinned already."""
        return self.disk.pin(name) | self.objects.pin(name)

    def unpin(self, name: str) -> None:
        """Let a block be evicted again."""
        for tier in self._tiers:
            tier.unpin(name)

    def remove(self, name: str) -> bool:
        """Drop a block, pinned or not; whether it was here."""
        return self.disk.remove(name) | self.objects.remove(name)

    def remove_damaged(self, name: str, read: Sealed) -> None:
        """Drop a block with other bytes than were put, from the tier that :meth:`get` has read."""
        for tier in self._tiers:
            tier.remove_damaged(name, read)

    async def flush(self) -> None:
        """Wait until all blocks are written or dropped, or lost."""
        await asyncio.gather(*(tier.flush() for tier in self._tiers))

    async def close(self, memory: MemoryTier | None = None) -> None:
        """Write what is pending; with ``memory`` its blocks as well, as far as there is room."""
        closings = (tier.close(memory) for tier in self._tiers)
        ended = await asyncio.gather(*closings, return_exceptions=True)
        for error in ended:
            if error is not None:
                raise error

    @property
    def _tiers(self) -> tuple[DiskTier, DiskTier]:
        return self.disk, self.objects

    def _first_with(self, name: str) -> DiskTier:
        return self.disk if name in self.disk else self.objects

    def _on_gone(self, name: str) -> None:
        if name not in self:
            self.on_gone(name)


@dataclass(frozen=True, eq=False)
class TieredStore:
    """Memory, and a disk behind it.

    Victims go to the disk; requested blocks return to memory and stay on the disk.

    Attributes:
        memory: the first tier.
        disk: the second, if there is one, alone or with an object storage behind it.
        is_saved: at the end, the blocks in memory are written to the disk.
    """

    memory: MemoryTier
    disk: DiskTier | LayeredTier | None = None
    is_saved: bool = False

    @property
    def capacity_bytes(self) -> int:
        """The capacity of all tiers together."""
        disk_bytes = 0 if self.disk is None else self.disk.capacity_bytes
        return self.memory.capacity_bytes + disk_bytes

    @property
    def next_wait_s(self) -> float:
        """:attr:`BlockTier.next_wait_s` of the last tier, from which evicted blocks are lost."""
        last = self.disk.objects if isinstance(self.disk, LayeredTier) else self.disk
        return (self.memory if last is None else last).next_wait_s

    def entry(self, name: str) -> Entry[Any] | None:
        """The entry of a block in the fastest tier that has it."""
        found: Entry[Any] | None = self.memory.entry(name)
        return self.disk.entry(name) if found is None and self.disk is not None else found

    def entries(self, name: str) -> list[Entry[Any]]:
        """The entries of a block in all tiers that have it."""
        tiers: list[BlockTier[Any]] = [self.memory]
        if isinstance(self.disk, LayeredTier):
            tiers += (self.disk.disk, self.disk.objects)
        elif self.disk is not None:
            tiers.append(self.disk)
        return [entry for tier in tiers if (entry := tier.entry(name)) is not None]

    async def flush(self) -> None:
        """Wait until changes are on the disk, and in the object storage."""
        if self.disk is not None:
            await self.disk.flush()

    def statistics(self) -> dict[str, TierStatistics]:
        """The figures of ``memory``, ``disk`` and ``objects``, as far as there is such a tier."""
        tiers: dict[str, BlockTier[Any]] = {"memory": self.memory}
        if isinstance(self.disk, LayeredTier):
            tiers |= {"disk": self.disk.disk, "objects": self.disk.objects}
        elif self.disk is not None:
            tiers["disk"] = self.disk
        return {name: tier.statistics() for name, tier in tiers.items()}

    async def close(self) -> None:
        """Complete the pending writes, and close the disk."""
        if self.disk is not None:
            await self.disk.close(self.memory if self.is_saved else None)
