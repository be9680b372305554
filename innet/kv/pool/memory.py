"""Blocks in memory, up to a number of bytes, and the budget of a tier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from innet.errors import KVError
from innet.kv.eviction import PolicyName, make_policy
from innet.kv.pool.network import Sealed
from innet.kv.pool.statistics import TierStatistics

MOST_PINNED: Final = 0.5
"""The share of a tier's capacity that can be pinned."""


@dataclass
class _Entry:
    size: int
    depth: int
    pinned: bool = False


class Budget:
    """A tier's capacity, and the blocks that use it, by name and without their bytes.

    The policy does not know pinned blocks, so it cannot choose one as victim.
    """

    def __init__(self, capacity_bytes: int, policy: PolicyName) -> None:
        """
        Args:
            capacity_bytes: of the tier; never exceeded.
            policy: chooses the victims.
        """
        self.capacity_bytes = capacity_bytes
        self._policy = make_policy(policy, capacity_bytes)
        self._entries: dict[str, _Entry] = {}
        self._used_bytes = 0
        self._pinned_bytes = 0
        self._evicted = 0

    def has_room(self, size: int) -> bool:
        """Whether a block of that size fits after evictions."""
        return size <= self.capacity_bytes - self._pinned_bytes

    @property
    def room_for_new_bytes(self) -> int:
        """How many bytes of new blocks fit at once without one of them evicting another."""
        stay = self._pinned_bytes if self._policy.newest_stays else self._used_bytes
        return self.capacity_bytes - stay

    def insert(self, name: str, size: int, depth: int) -> list[tuple[str, int]]:
        """Add a block that fits; names and depths of the victims, of which it may be one."""
        self._entries[name] = _Entry(size, depth)
        self._used_bytes += size
        self._policy.insert(name.encode(), depth, size)
        victims = []
        while self._used_bytes > self.capacity_bytes:
            victim = self._policy.take_victim().decode()
            entry = self._entries.pop(victim)
            self._used_bytes -= entry.size
            self._evicted += 1
            victims.append((victim, entry.depth))
        return victims

    def use(self, name: str) -> None:
        """Record a request for a block of the tier."""
        if not self._entries[name].pinned:
            self._policy.use(name.encode())

    def demote(self, name: str) -> None:
        """Make a block of the tier the next victim, unless it is used before."""
        if not self._entries[name].pinned:
            self._policy.demote(name.encode())

    def remove(self, name: str) -> None:
        """Forget a block of the tier that goes for another reason than lack of room."""
        self.unpin(name)
        self._policy.remove(name.encode())
        self._used_bytes -= self._entries.pop(name).size

    def pin(self, name: str) -> bool:
        """Protect a block of the tier from eviction; false: too much is pinned already."""
        entry = self._entries[name]
        if entry.pinned:
            return True
        if self._pinned_bytes + entry.size > MOST_PINNED * self.capacity_bytes:
            return False
        self._policy.remove(name.encode())
        entry.pinned = True
        self._pinned_bytes += entry.size
        return True

    def unpin(self, name: str) -> None:
        """Let a block of the tier be evicted again; it counts as new."""
        entry = self._entries[name]
        if entry.pinned:
            entry.pinned = False
            self._pinned_bytes -= entry.size
            self._policy.insert(name.encode(), entry.depth, entry.size)

    def statistics(self, *, damaged: int = 0, failed: int = 0) -> TierStatistics:
        """The tier's figures; ``damaged`` and ``failed`` as the tier has counted them."""
        return TierStatistics(
            len(self._entries),
            self._used_bytes,
            self.capacity_bytes,
            self._pinned_bytes,
            self._evicted,
            damaged,
            failed,
        )


@dataclass(frozen=True)
class Evicted:
    """A block that made room for another.

    Attributes:
        name: of the block.
        block: its contents and manifest.
        depth: its position in its prompt.
    """

    name: str
    block: Sealed
    depth: int


class MemoryTier:
    """Blocks in memory."""

    def __init__(self, capacity_bytes: int, policy: PolicyName = "lru") -> None:
        """
        Args:
            capacity_bytes: of all blocks with their manifests; 0: keep none.
            policy: chooses the victims.

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
        """How many bytes of new blocks fit at once without one of them evicting another."""
        return self._budget.room_for_new_bytes

    def __contains__(self, name: str) -> bool:
        """Whether the block is here; this does not count as a use."""
        return name in self._blocks

    def get(self, name: str) -> Sealed | None:
        """The block, which counts as used; ``None``: it is not here."""
        block = self._blocks.get(name)
        if block is not None:
            self._budget.use(name)
        return block

    def demote(self, name: str) -> None:
        """Make a block the next victim, if it is here, unless it is used before."""
        if name in self._blocks:
            self._budget.demote(name)

    def put(self, name: str, block: Sealed, depth: int) -> list[Evicted]:
        """Keep a block; the victims, of which it may be one.

        A block that is here already stays as it is, and counts as used.

        Args:
            name: of the block.
            block: its contents must not change from now on.
            depth: its position in its prompt, from 0.
        """
        if name in self._blocks:
            self._budget.use(name)
            return []
        size = block.contents.nbytes + len(block.root)
        if not self._budget.has_room(size):
            return [Evicted(name, block, depth)]
        self._blocks[name] = block
        victims = self._budget.insert(name, size, depth)
        return [Evicted(victim, self._blocks.pop(victim), its) for victim, its in victims]

    def remove(self, name: str) -> bool:
        """Drop a block, pinned or not; whether it was here."""
        if self._blocks.pop(name, None) is None:
            return False
        self._budget.remove(name)
        return True

    def pin(self, name: str) -> bool:
        """Protect a block from eviction; false: it is not here, or too much is pinned already."""
        return name in self._blocks and self._budget.pin(name)

    def unpin(self, name: str) -> None:
        """Let a block be evicted again."""
        if name in self._blocks:
            self._budget.unpin(name)

    def statistics(self) -> TierStatistics:
        """The tier's figures."""
        return self._budget.statistics()
