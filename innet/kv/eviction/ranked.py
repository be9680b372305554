"""Policies that give each block a rank when it is asked for, and drop the lowest."""

from __future__ import annotations

import heapq
import sys
from abc import abstractmethod
from typing import Final, NamedTuple

from innet.kv.eviction.policy import EvictionPolicy

_MOST_STALE = 2
"""Entries of the heap for each block kept, before those that no longer hold are cleared out."""


class Rank(NamedTuple):
    """Blocks with the lowest rank go first; of equals, the one with the lower ``then``."""

    value: int
    then: int


_LOWEST: Final = Rank(-sys.maxsize, 0)


class RankedPolicy(EvictionPolicy):
    """A heap of ranks, whose entries are corrected when they come to its top."""

    def __init__(self) -> None:
        self._ranks: dict[bytes, Rank] = {}
        self._heap: list[tuple[Rank, bytes]] = []

    @abstractmethod
    def rank_of_new(self, block: bytes, depth: int) -> Rank:
        """The rank of a block that is inserted."""

    @abstractmethod
    def rank_after_use(self, block: bytes) -> Rank:
        """The rank of a block that was asked for."""

    @abstractmethod
    def forget(self, block: bytes) -> None:
        """The block is there no longer."""

    def insert(self, block: bytes, depth: int, size: int = 1) -> None:
        """See :class:`EvictionPolicy`."""
        self._set(block, self.rank_of_new(block, depth))

    def use(self, block: bytes) -> None:
        """See :class:`EvictionPolicy`."""
        self._set(block, self.rank_after_use(block))

    def demote(self, block: bytes) -> None:
        """See :class:`EvictionPolicy`."""
        self._set(block, _LOWEST)

    def remove(self, block: bytes) -> None:
        """See :class:`EvictionPolicy`."""
        del self._ranks[block]
        self.forget(block)

    def take_victim(self) -> bytes:
        """See :class:`EvictionPolicy`."""
        while True:
            rank, block = heapq.heappop(self._heap)
            if self._ranks.get(block) == rank:
                self.remove(block)
                return block

    def _set(self, block: bytes, rank: Rank) -> None:
        self._ranks[block] = rank
        heapq.heappush(self._heap, (rank, block))
        if len(self._heap) > _MOST_STALE * len(self._ranks) + 64:
            self._heap = [(rank, block) for block, rank in self._ranks.items()]
            heapq.heapify(self._heap)
