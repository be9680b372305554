"""Memory, and a disk behind it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from innet.kv.pool.network import Sealed
from innet.kv.pool.tiers.disk import DiskTier
from innet.kv.pool.tiers.memory import Evicted, MemoryTier


class Tier(Enum):
    """Where a block can be used from; one that is in memory may be on disk as well."""

    MEMORY = "memory"
    DISK = "disk"


class TieredStore:
    """What memory has no room for goes to the disk; what is asked for comes back, and stays there.

    Attributes:
        memory: the first tier.
        disk: the second, if there is one.
        on_change: called with a block's name and its tier when that may have changed; ``None``: it
            is gone.
    """

    def __init__(self, memory: MemoryTier, disk: DiskTier | None = None) -> None:
        self.memory = memory
        self.disk = disk
        self.on_change: Callable[[str, Tier | None], None] = lambda name, tier: None
        if disk is not None:
            disk.on_gone = self._tell

    @property
    def capacity_bytes(self) -> int:
        """The most that it keeps, in all tiers."""
        disk_bytes = 0 if self.disk is None else self.disk.capacity_bytes
        return self.memory.capacity_bytes + disk_bytes

    def tier(self, name: str) -> Tier | None:
        """Where the block is; asking this is no use of it. ``None``: it is not here."""
        if name in self.memory:
            return Tier.MEMORY
        return Tier.DISK if self.disk is not None and name in self.disk else None

    def use(self, name: str) -> None:
        """The block was asked for, if it is in memory: loading from disk counts by itself."""
        self.memory.get(name)

    def put(self, name: str, block: Sealed, depth: int) -> Tier | None:
        """Keep a block; where. ``None``: there is no room for it.

        Args:
            name: its name.
            block: it; its contents must not change from now on.
            depth: its place in its prompt, from 0.
        """
        gone = self.memory.put(name, block, depth)
        self._tell(name)
        self._demote(gone)
        return self.tier(name)

    async def read_disk(self, name: str) -> Sealed | None:
        """What the disk has under that name, not verified; ``None``: nothing."""
        return None if self.disk is None else await self.disk.get(name)

    def promote(self, name: str, block: Sealed) -> None:
        """A block that was read from disk, and verified, is to be in memory as well."""
        if self.disk is not None:
            self.put(name, block, self.disk.depth(name))

    def remove(self, name: str) -> bool:
        """Drop a block, pinned or not; whether it was here."""
        removed = self.memory.remove(name)
        if self.disk is not None and self.disk.remove(name):
            removed = True
        if removed:
            self._tell(name)
        return removed

    def remove_damaged(self, name: str) -> None:
        """Drop a block whose copy on disk was found to be damaged."""
        if self.disk is not None:
            self.disk.remove_damaged(name)
            self._tell(name)

    def disk_names(self) -> list[str]:
        """The blocks on disk."""
        return [] if self.disk is None else self.disk.names()

    def pin(self, name: str) -> bool:
        """Drop a block for no other from the tier that it is in; false: it is in none, or too much
        of that tier is pinned."""
        if name in self.memory:
            return self.memory.pin(name)
        return self.disk is not None and self.disk.pin(name)

    def unpin(self, name: str) -> None:
        """Let a block go again when there is no room."""
        self.memory.unpin(name)
        if self.disk is not None:
            self.disk.unpin(name)

    async def close(self) -> None:
        """Let the disk write what it has not, and close it."""
        if self.disk is not None:
            await self.disk.close()

    def _demote(self, gone: list[Evicted]) -> None:
        for evicted in gone:
            if self.disk is not None:
                self.disk.put(evicted.name, evicted.block, evicted.depth)
            self._tell(evicted.name)

    def _tell(self, name: str) -> None:
        self.on_change(name, self.tier(name))
