"""Blocks in memory, up to a number of bytes; and what all tiers of a store have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from innet.errors import KVError
from innet.kv.eviction import PolicyName, make_policy
from innet.kv.pool.network import Sealed
from innet.kv.pool.statistics import TierStatistics

Kept = TypeVar("Kept")

MOST_PINNED: Final = 0.5
"""The share of a tier's capacity that can be pinned."""


@dataclass(slots=True)
class Entry(Generic[Kept]):
    """A block of a tier.

    Attributes:
        size: its share of the capacity.
        depth: its position in its prompt.
        kept: what the tier has of it.
        pinned: the tier may not evict it.
    """

    size: int
    depth: int
    kept: Kept
    pinned: bool = False


class BlockTier(Generic[Kept]):
    """Blocks by name, up to a number of bytes.

    The policy does not know pinned blocks, so it cannot choose one as victim.

    Attributes:
        capacity_bytes: the most that all blocks take.
    """

    def __init__(self, capacity_bytes: int, policy: PolicyName) -> None:
        """
        Args:
            capacity_bytes: of all blocks; 0: keep none.
            policy: chooses the victims.

        Raises:
            KVError: the capacity is negative.
        """
        if capacity_bytes < 0:
            raise KVError(f"the capacity of a tier is at least 0 bytes, not {capacity_bytes}")
        self.capacity_bytes = capacity_bytes
        self._policy = make_policy(policy, capacity_bytes)
        self._entries: dict[str, Entry[Kept]] = {}
        self._used_bytes = 0
        self._pinned_bytes = 0
        self._evicted = 0
        self._damaged = 0
        self._failed = 0

    def __contains__(self, name: str) -> bool:
        """Whether the block is here; this does not count as a use."""
        return name in self._entries

    @property
    def room_for_new_bytes(self) -> int:
        """How many bytes of new blocks fit at once without one of them evicting another."""
        stay = self._pinned_bytes if self._policy.newest_stays else self._used_bytes
        return self.capacity_bytes - stay

    def use(self, name: str) -> bool:
        """Record a request for a block; whether it is here."""
        entry = self._entries.get(name)
        if entry is not None and not entry.pinned:
            self._policy.use(name.encode())
        return entry is not None

    def demote(self, name: str) -> None:
        """Make a block the next victim, if it is here, unless it is used before."""
        entry = self._entries.get(name)
        if entry is not None and not entry.pinned:
            self._policy.demote(name.encode())

    def pin(self, name: str) -> bool:
        """Protect a block from eviction; false: it is not here, or too much is pinned already."""
        entry = self._entries.get(name)
        if entry is None or entry.pinned:
            return entry is not None
        if self._pinned_bytes + entry.size > MOST_PINNED * self.capacity_bytes:
            return False
        self._policy.remove(name.encode())
        entry.pinned = True
        self._pinned_bytes += entry.size
        return True

    def unpin(self, name: str) -> None:
        """Let a block be evicted again; it counts as new."""
        entry = self._entries.get(name)
        if entry is not None and entry.pinned:
            entry.pinned = False
            self._pinned_bytes -= entry.size
            self._policy.insert(name.encode(), entry.depth, entry.size)

    def statistics(self) -> TierStatistics:
        """The tier's figures."""
        return TierStatistics(
            len(self._entries),
            self._used_bytes,
            self.capacity_bytes,
            self._pinned_bytes,
            self._evicted,
            self._damaged,
            self._failed,
        )

    def _has_room(self, size: int) -> bool:
        """Whether a block of that size fits after evictions."""
        return size <= self.capacity_bytes - self._pinned_bytes

    def _insert(self, name: str, entry: Entry[Kept]) -> list[tuple[str, Entry[Kept]]]:
        """Add a block that fits; the victims, of which it may be one."""
        self._entries[name] = entry
        self._used_bytes += entry.size
        self._policy.insert(name.encode(), entry.depth, entry.size)
        victims = []
        while self._used_bytes > self.capacity_bytes:
            victim = self._policy.take_victim().decode()
            victims.append((victim, self._entries.pop(victim)))
            self._used_bytes -= victims[-1][1].size
        self._evicted += len(victims)
        return victims

    def _take(self, name: str) -> Entry[Kept] | None:
        """Remove a block, pinned or not, for another reason than lack of room."""
        self.unpin(name)
        entry = self._entries.pop(name, None)
        if entry is not None:
            self._policy.remove(name.encode())
            self._used_bytes -= entry.size
        return entry


class MemoryTier(BlockTier[Sealed]):
    """Blocks in memory, each with its manifest."""

    def __init__(self, capacity_bytes: int, policy: PolicyName = "lru") -> None:
        """See the base class."""
        super().__init__(capacity_bytes, policy)

    def get(self, name: str) -> Sealed | None:
        """The block, which counts as used; ``None``: it is not here."""
        return self._entries[name].kept if self.use(name) else None

    def put(self, name: str, block: Sealed, depth: int) -> list[tuple[str, Entry[Sealed]]]:
        """Keep a block; the victims, of which it may be one.

        A block that is here already stays as it is, and counts as used.

        Args:
            name: of the block.
            block: its contents must not change from now on.
            depth: its position in its prompt, from 0.
        """
        if self.use(name):
            return []
        entry = Entry(block.contents.nbytes + len(block.root), depth, block)
        return self._insert(name, entry) if self._has_room(entry.size) else [(name, entry)]

    def remove(self, name: str) -> bool:
        """Drop a block, pinned or not; whether it was here."""
        return self._take(name) is not None
