"""Least recently used."""

from __future__ import annotations

from collections import OrderedDict

from innet.kv.eviction.policy import EvictionPolicy


class Lru(EvictionPolicy):
    """Drops what has not been asked for the longest."""

    newest_stays = True

    def __init__(self) -> None:
        self._order: OrderedDict[bytes, None] = OrderedDict()

    def insert(self, block: bytes, depth: int, size: int = 1) -> None:
        """See :class:`EvictionPolicy`."""
        self._order[block] = None

    def use(self, block: bytes) -> None:
        """See :class:`EvictionPolicy`."""
        self._order.move_to_end(block)

    def demote(self, block: bytes) -> None:
        """See :class:`EvictionPolicy`."""
        self._order.move_to_end(block, last=False)

    def remove(self, block: bytes) -> None:
        """See :class:`EvictionPolicy`."""
        del self._order[block]

    def take_victim(self) -> bytes:
        """See :class:`EvictionPolicy`."""
        return self._order.popitem(last=False)[0]
