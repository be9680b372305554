"""S3-FIFO: Yang, Zhang, Qiu, Yue and Rashmi, "FIFO queues are all you need for cache eviction",
SOSP 2023. The switches' content stores have the same in C++, by bytes; here all blocks are of one
size."""

from __future__ import annotations

from collections import OrderedDict

from innet.kv.eviction.policy import EvictionPolicy

_MOST_USES = 3
_USES_FOR_MAIN = 2
"""A block survives the small queue when it was asked for so often in it."""


class S3Fifo(EvictionPolicy):
    """A small queue that new blocks must survive, a main one, and a memory of what did not.

    What is asked for once passes through the small queue, a tenth of the store, and leaves the
    others alone.
    """

    def __init__(self, capacity_blocks: int) -> None:
        self._small_blocks = max(1, capacity_blocks // 10)
        self._main_blocks = max(1, capacity_blocks - self._small_blocks)
        self._small: OrderedDict[bytes, int] = OrderedDict()
        self._main: OrderedDict[bytes, int] = OrderedDict()
        self._ghosts: OrderedDict[bytes, None] = OrderedDict()

    def insert(self, block: bytes, depth: int) -> None:
        """See :class:`EvictionPolicy`."""
        known = block in self._ghosts
        if known:
            del self._ghosts[block]
        (self._main if known else self._small)[block] = 0

    def use(self, block: bytes) -> None:
        """See :class:`EvictionPolicy`."""
        queue = self._small if block in self._small else self._main
        queue[block] = min(queue[block] + 1, _MOST_USES)

    def remove(self, block: bytes) -> None:
        """See :class:`EvictionPolicy`."""
        del (self._small if block in self._small else self._main)[block]

    def take_victim(self) -> bytes:
        """See :class:`EvictionPolicy`."""
        while self._small and (len(self._small) >= self._small_blocks or not self._main):
            block, uses = self._small.popitem(last=False)
            if uses < _USES_FOR_MAIN:
                self._remember(block)
                return block
            self._main[block] = 0
            if len(self._main) > self._main_blocks:
                break
        return self._take_from_main()

    def _take_from_main(self) -> bytes:
        while True:
            block, uses = self._main.popitem(last=False)
            if uses == 0:
                return block
            self._main[block] = uses - 1

    def _remember(self, block: bytes) -> None:
        # As long as the main queue: what returns after that counts as new.
        self._ghosts[block] = None
        if len(self._ghosts) > self._main_blocks:
            self._ghosts.popitem(last=False)
