"""Least recently used, with an eye to prompts: a block is worthless without those before it."""

from __future__ import annotations

from innet.kv.eviction.ranked import Rank, RankedPolicy


class PrefixDepth(RankedPolicy):
    """Drops the block with the smallest (time of last use) - (depth); of equals, the deepest.

    Time counts the blocks asked for. In a store that sees whole prompts, from their first block on,
    all blocks of a prompt have the same rank, whatever its length: so the prompt longest unused
    loses its last blocks first, and what is kept is always whole prefixes. (A block is used at most
    as many ticks after one before it as it is deeper, so it never ranks above it.) A home that sees
    every n-th block of a prompt is told depths that are n times smaller, as its time is slower.
    """

    def __init__(self) -> None:
        super().__init__()
        self._depths: dict[bytes, int] = {}
        self._now = 0

    def rank_of_new(self, block: bytes, depth: int) -> Rank:
        """See :class:`RankedPolicy`."""
        self._depths[block] = depth
        return self.rank_after_use(block)

    def rank_after_use(self, block: bytes) -> Rank:
        """See :class:`RankedPolicy`."""
        self._now += 1
        depth = self._depths[block]
        return Rank(self._now - depth, -depth)

    def forget(self, block: bytes) -> None:
        """See :class:`RankedPolicy`."""
        del self._depths[block]
