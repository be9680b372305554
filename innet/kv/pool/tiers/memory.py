"""Blocks in memory, up to a number of bytes."""

from __future__ import annotations

from dataclasses import dataclass

from innet.errors import KVError
from innet.kv.eviction import PolicyName
from innet.kv.pool.network import Sealed
from innet.kv.pool.statistics import TierStatistics
from innet.kv.pool.tiers.budget import Budget


@dataclass(frozen=True)
class Evicted:
    """A block that had to go.

    Attributes:
        name: its name.
        block: it.
        depth: its place in its prompt.
    """

    name: str
    block: Sealed
    depth: int


def size_bytes(block: Sealed) -> int:
    """What a block takes of a tier's capacity."""
    return block.contents.nbytes + len(block.root)


class MemoryTier:
    """Keeps blocks in memory; a policy says which go when there is no more room."""

    def __init__(self, capacity_bytes: int, policy: PolicyName = "lru") -> None:
        """
        Args:
            capacity_bytes: the most that all blocks take, with their manifests; 0: keep none.
            policy: what goes first.

        Raises:
            KVError: the capacity is negative.
        """
        if capacity_bytes < 0:
            raise KVError(f"the capacity of a tier is at least 0 bytes, not {capacity_bytes}")
        self._budget = Budget(capacity_bytes, policy)
        self._blocks: dict[str, Sealed] = {}

    @property
    def capacity_bytes(self) -> int:
        """The most that all blocks take."""
        return self._budget.capacity_bytes

    @property
    def room_for_new_bytes(self) -> int:
        """So much can come at once, and nothing of it has to go for the rest of it."""
        return self._budget.room_for_new_bytes

    def __contains__(self, name: str) -> bool:
        """Whether the block is here; asking this is no use of it."""
        return name in self._blocks

    def get(self, name: str) -> Sealed | None:
        """The block, which was asked for by this; ``None``: it is not here."""
        block = self._blocks.get(name)
        if block is not None:
            self._budget.use(name)
        return block

    def demote(self, name: str) -> None:
        """Let a block be the next to go, if it is here, unless it is asked for before."""
        if name in self._blocks:
            self._budget.demote(name)

    def put(self, name: str, block: Sealed, depth: int) -> list[Evicted]:
        """Keep a block; what had to go for it. It may be the block itself.

        A block that is here already stays as it is, and was asked for.

        Args:
            name: its name.
            block: it; its contents must not change from now on.
            depth: its place in its prompt, from 0.
        """
        if name in self._blocks:
            self._budget.use(name)
            return []
        size = size_bytes(block)
        if not self._budget.has_room(size):
            return [Evicted(name, block, depth)]
        self._blocks[name] = block
        gone = self._budget.insert(name, size, depth)
        return [Evicted(victim, self._blocks.pop(victim), depth_of) for victim, depth_of in gone]

    def remove(self, name: str) -> bool:
        """Drop a block, pinned or not; whether it was here."""
        if self._blocks.pop(name, None) is None:
            return False
        self._budget.remove(name)
        return True

    def pin(self, name: str) -> bool:
        """Drop a block for no other; false: it is not here, or too much is pinned already."""
        return name in self._blocks and self._budget.pin(name)

    def unpin(self, name: str) -> None:
        """Let a block go again when there is no room."""
        if name in self._blocks:
            self._budget.unpin(name)

    def statistics(self) -> TierStatistics:
        """How full it is."""
        return self._budget.statistics()
