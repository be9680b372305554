"""Where a node keeps blocks: in memory, and on a disk behind it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from innet.kv.pool.disk import DiskTier
from innet.kv.pool.memory import Evicted, MemoryTier
from innet.kv.pool.network import Sealed


class Tier(Enum):
    """Where a block can be read from; one that is in memory may be on disk as well."""

    MEMORY = "memory"
    DISK = "disk"


class TieredStore:
    """Memory, and a disk behind it: victims go to the disk, requested blocks come back and stay.

    Attributes:
        memory: the first tier.
        disk: the second, if there is one.
        on_change: called with a block's name and its tier when that may have changed; ``None``: it
            is not here.
        on_gone: called with a block's name before ``on_change`` when it is not here.
    """

    def __init__(self, memory: MemoryTier, disk: DiskTier | None = None) -> None:
        self.memory = memory
        self.disk = disk
        self.on_change: Callable[[str, Tier | None], None] = lambda name, tier: None
        self.on_gone: Callable[[str], None] = lambda name: None
        if disk is not None:
            disk.on_gone = self._report

    @property
    def capacity_bytes(self) -> int:
        """Of all tiers."""
        disk_bytes = 0 if self.disk is None else self.disk.capacity_bytes
        return self.memory.capacity_bytes + disk_bytes

    def tier(self, name: str) -> Tier | None:
        """Where the block is, ``None`` if it is not here; this does not count as a use."""
        if name in self.memory:
            return Tier.MEMORY
        return Tier.DISK if self.disk is not None and name in self.disk else None

    def use(self, name: str) -> None:
        """Record a request for a block in memory: loading from disk counts by itself."""
        self.memory.get(name)

    def put(self, name: str, block: Sealed, depth: int) -> Tier | None:
        """Keep a block; where. ``None``: there is no room for it.

        Args:
            name: of the block.
            block: its contents must not change from now on.
            depth: its position in its prompt, from 0.
        """
        victims = self.memory.put(name, block, depth)
        self._report(name)
        self._demote(victims)
        return self.tier(name)

    async def read_disk(self, name: str) -> Sealed | None:
        """What the disk has under that name, not verified; ``None``: nothing."""
        return None if self.disk is None else await self.disk.get(name)

    def promote(self, name: str, block: Sealed) -> None:
        """Copy a block to memory that was read from disk and verified."""
        if self.disk is not None:
            self.put(name, block, self.disk.depth(name))

    def remove(self, name: str) -> bool:
        """Drop a block, pinned or not; whether it was here."""
        removed = self.memory.remove(name)
        if self.disk is not None and self.disk.remove(name):
            removed = True
        if removed:
            self._report(name)
        return removed

    def remove_damaged(self, name: str) -> None:
        """Drop a block whose copy on disk is damaged."""
        if self.disk is not None:
            self.disk.remove_damaged(name)
            self._report(name)

    def disk_names(self) -> list[str]:
        """The blocks on disk."""
        return [] if self.disk is None else self.disk.names()

    def pin(self, name: str) -> bool:
        """Protect a block from eviction in its tier; false: it is in none, or too much of that tier
        is pinned."""
        if name in self.memory:
            return self.memory.pin(name)
        return self.disk is not None and self.disk.pin(name)

    def unpin(self, name: str) -> None:
        """Let a block be evicted again."""
        self.memory.unpin(name)
        if self.disk is not None:
            self.disk.unpin(name)

    async def close(self) -> None:
        """Let the disk write what is pending, and close it."""
        if self.disk is not None:
            await self.disk.close()

    def _demote(self, victims: list[Evicted]) -> None:
        for evicted in victims:
            if self.disk is not None:
                self.disk.put(evicted.name, evicted.block, evicted.depth)
            self._report(evicted.name)

    def _report(self, name: str) -> None:
        tier = self.tier(name)
        if tier is None:
            self.on_gone(name)
        self.on_change(name, tier)
