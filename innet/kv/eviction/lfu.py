"""Least frequently used."""

from __future__ import annotations

from innet.kv.eviction.ranked import Rank, RankedPolicy


class Lfu(RankedPolicy):
    """Drops what was asked for least often since it came; of equals, the least recently used."""

    def __init__(self) -> None:
        super().__init__()
        self._uses: dict[bytes, int] = {}
        self._now = 0

    def rank_of_new(self, block: bytes, depth: int) -> Rank:
        """See :class:`RankedPolicy`."""
        self._uses[block] = 0
        return self.rank_after_use(block)

    def rank_after_use(self, block: bytes) -> Rank:
        """See :class:`RankedPolicy`."""
        self._uses[block] += 1
        self._now += 1
        return Rank(self._uses[block], self._now)

    def forget(self, block: bytes) -> None:
        """See :class:`RankedPolicy`."""
        del self._uses[block]
