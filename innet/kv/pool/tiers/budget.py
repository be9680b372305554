"""What of a tier's capacity is in use, and by what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from innet.kv.eviction import PolicyName, make_policy
from innet.kv.pool.statistics import TierStatistics

MOST_PINNED: Final = 0.5
"""The share of a tier's capacity that can be pinned."""


@dataclass
class _Entry:
    size: int
    depth: int
    pinned: bool = False


class Budget:
    """The blocks of a tier, by name, without their bytes: never larger than the capacity.

    The policy does not know the pinned ones, and so cannot choose them.
    """

    def __init__(self, capacity_bytes: int, policy: PolicyName) -> None:
        """
        Args:
            capacity_bytes: of the tier.
            policy: what goes first.
        """
        self.capacity_bytes = capacity_bytes
        self._policy = make_policy(policy, capacity_bytes)
        self._entries: dict[str, _Entry] = {}
        self._used_bytes = 0
        self._pinned_bytes = 0
        self._evicted = 0

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def names(self) -> list[str]:
        """All blocks, those first that came first."""
        return list(self._entries)

    def has_room(self, size: int) -> bool:
        """Whether a block of that size can be kept, if others go."""
        return size <= self.capacity_bytes - self._pinned_bytes

    @property
    def room_for_new_bytes(self) -> int:
        """So much can come at once, and nothing of it has to go for the rest of it."""
        stay = self._pinned_bytes if self._policy.newest_stays else self._used_bytes
        return self.capacity_bytes - stay

    def insert(self, name: str, size: int, depth: int) -> list[tuple[str, int]]:
        """Keep a block that is not here and has room; names and depths of what goes for it."""
        self._entries[name] = _Entry(size, depth)
        self._used_bytes += size
        self._policy.insert(name.encode(), depth, size)
        gone = []
        while self._used_bytes > self.capacity_bytes:
            victim = self._policy.take_victim().decode()
            entry = self._entries.pop(victim)
            self._used_bytes -= entry.size
            self._evicted += 1
            gone.append((victim, entry.depth))
        return gone

    def use(self, name: str) -> None:
        """A block that is here was asked for."""
        if not self._entries[name].pinned:
            self._policy.use(name.encode())

    def demote(self, name: str) -> None:
        """A block that is here is to be the next to go, unless it is asked for before."""
        if not self._entries[name].pinned:
            self._policy.demote(name.encode())

    def remove(self, name: str) -> None:
        """A block that is here goes, for another reason than want of room."""
        self.unpin(name)
        self._policy.remove(name.encode())
        self._used_bytes -= self._entries.pop(name).size

    def pin(self, name: str) -> bool:
        """Let a block that is here not go for others; false: too much is pinned already."""
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
        """Let a block that is here go again; as one that has just come."""
        entry = self._entries[name]
        if entry.pinned:
            entry.pinned = False
            self._pinned_bytes -= entry.size
            self._policy.insert(name.encode(), entry.depth, entry.size)

    def statistics(self, *, damaged: int = 0, failed: int = 0) -> TierStatistics:
        """How full it is; ``damaged`` and ``failed`` as the tier has counted them."""
        return TierStatistics(
            len(self._entries),
            self._used_bytes,
            self.capacity_bytes,
            self._pinned_bytes,
            self._evicted,
            damaged,
            failed,
        )
