"""The tiers of a store, with up to a number of bytes each; the first one is memory."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from innet.errors import KVError
from innet.kv.eviction import DEFAULT_POLICY, PolicyName, make_policy
from innet.kv.pool.network import Sealed
from innet.kv.pool.statistics import TierStatistics
from innet.kv.pool.waiting import now_s
from innet.telemetry.durations import Ages

Kept = TypeVar("Kept")

MOST_PINNED: Final = 0.5
"""The share of a tier's capacity that can be pinned."""


@dataclass(slots=True)
class Entry(Generic[Kept]):
    """A block of a tier.

    Attributes:
        size: its share of the capacity.
        depth: its position in its prompt.
        kept: the block, or its place on disk.
        pinned: the tier may not evict it.
        is_copy: another node keeps the block, so the disk does not take it.
        since_s: when it was inserted, in the time of the event loop.
        used_s: when it was inserted or used last.
        asked: how often other nodes have requested it here.
    """

    size: int
    depth: int
    kept: Kept
    pinned: bool = False
    is_copy: bool = False
    since_s: float = 0.0
    used_s: float = 0.0
    asked: int = 0


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
        self._eviction_ages = Ages()
        self._damaged = 0
        self._failed = 0

    def __contains__(self, name: str) -> bool:
        """Whether the block is here; this does not count as a use."""
        return name in self._entries

    def names(self) -> list[str]:
        """All blocks."""
        return list(self._entries)

    def entry(self, name: str) -> Entry[Kept] | None:
        """The entry of a block; this does not count as a use."""
        return self._entries.get(name)

    @property
    def room_for_new_bytes(self) -> int:
        """How many bytes of new blocks fit at once without one of them evicting another."""
        stay = self._pinned_bytes if self._policy.newest_stays else self._used_bytes
        return self.capacity_bytes - stay

    @property
    def next_wait_s(self) -> float:
        """How long the block that a new one would evict has waited for a use.

        The time of a block that the policy keeps longer than new ones is divided accordingly, so
        the times of tiers can be compared. Infinite if a new block evicts none that is here alone,
        or if the policy cannot say which.
        """
        entries = self._entries
        if not entries or self._used_bytes + self._used_bytes / len(entries) <= self.capacity_bytes:
            return math.inf
        victim = self._policy.next_victim()
        if victim is None:
            return math.inf
        return (now_s() - entries[victim.block.decode()].used_s) / victim.patience

    def use(self, name: str) -> bool:
        """Record a request for a block; whether it is here."""
        entry = self._entries.get(name)
        if entry is not None:
            entry.used_s = now_s()
            if not entry.pinned:
                self._policy.use(name.encode())
        return entry is not None

    def demote(self, name: str) -> None:
        """Evict a block, if it is here, before all that are not demoted; another node has it."""
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
            damaged=self._damaged,
            failed=self._failed,
            eviction_ages=copy.deepcopy(self._eviction_ages),
        )

    def _has_room(self, size: int) -> bool:
        """Whether a block of that size fits after evictions."""
        return size <= self.capacity_bytes - self._pinned_bytes

    def _insert(self, name: str, entry: Entry[Kept]) -> list[tuple[str, Entry[Kept]]]:
        """Add a block that fits; the victims, of which it may be one."""
        entry.since_s = entry.used_s = now_s()
        self._entries[name] = entry
        self._used_bytes += entry.size
        block = name.encode()
        self._policy.insert(block, entry.depth, entry.size)
        if entry.is_copy:
            self._policy.demote(block)
        victims = []
        while self._used_bytes > self.capacity_bytes:
            victim = self._policy.take_victim().decode()
            victims.append((victim, self._entries.pop(victim)))
            self._used_bytes -= victims[-1][1].size
            self._eviction_ages.add(entry.since_s - victims[-1][1].since_s)
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
    """Blocks in memory. Each counts with its manifest and bookkeeping."""

    def __init__(self, capacity_bytes: int, policy: PolicyName = DEFAULT_POLICY) -> None:
        """See the base class."""
        super().__init__(capacity_bytes, policy)

    def get(self, name: str) -> Sealed | None:
        """The block, which counts as used; ``None``: it is not here."""
        return self._entries[name].kept if self.use(name) else None

    def put(
        self, name: str, block: Sealed, depth: int, *, is_copy: bool = False
    ) -> list[tuple[str, Entry[Sealed]]]:
        """Keep a block; the victims, of which it may be one.

        A block that is here already stays as it is, and counts as used.

        Args:
            name: of the block.
            block: its contents must not change from now on.
            depth: its position in its prompt, from 0.
            is_copy: another node keeps the block, so it is evicted first.
        """
        if self.use(name):
            return []
        entry = Entry(block.memory_bytes, depth, block, is_copy=is_copy)
        return self._insert(name, entry) if self._has_room(entry.size) else [(name, entry)]

    def remove(self, name: str) -> bool:
        """Drop a block, pinned or not; whether it was here."""
        return self._take(name) is not None
