"""Least recently used, where used blocks age half as fast as those that nobody has used."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from innet.kv.eviction.policy import EvictionPolicy

_PATIENCE: Final = 2
"""A used block is kept this many times as long as one that nobody has used since it came."""


class SecondUse(EvictionPolicy):
    """Drops the oldest unused block, or the oldest used one when that has waited twice as long.

    Most blocks of a prompt are never used again. They pass through without taking the room of used
    ones, as in 2Q (Johnson and Shasha, VLDB 1994). The share of each kind is not fixed: it follows
    from the ages, counted in blocks asked for, so a store whose blocks are all used is plain LRU.
    """

    newest_stays = True

    def __init__(self) -> None:
        self._unused: OrderedDict[bytes, int] = OrderedDict()
        self._used: OrderedDict[bytes, int] = OrderedDict()
        self._now = 0

    def insert(self, block: bytes, depth: int, size: int = 1) -> None:
        """See :class:`EvictionPolicy`."""
        self._now += 1
        self._unused[block] = self._now

    def use(self, block: bytes) -> None:
        """See :class:`EvictionPolicy`."""
        self._now += 1
        self.remove(block)
        self._used[block] = self._now

    def demote(self, block: bytes) -> None:
        """See :class:`EvictionPolicy`."""
        self.remove(block)
        # Older than any used block, however long that has waited.
        self._unused[block] = -_PATIENCE * self._now
        self._unused.move_to_end(block, last=False)

    def remove(self, block: bytes) -> None:
        """See :class:`EvictionPolicy`."""
        if self._unused.pop(block, None) is None:
            del self._used[block]

    def take_victim(self) -> bytes:
        """See :class:`EvictionPolicy`."""
        unused = next(iter(self._unused.values()), None)
        used = next(iter(self._used.values()), None)
        if unused is None:
            oldest = self._used
        elif used is None or _PATIENCE * (self._now - unused) >= self._now - used:
            oldest = self._unused
        else:
            oldest = self._used
        return oldest.popitem(last=False)[0]
