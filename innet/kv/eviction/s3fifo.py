"""S3-FIFO: Yang, Zhang, Qiu, Yue and Rashmi, "FIFO queues are all you need for cache eviction",
SOSP 2023. The switches' content stores have the same in C++."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from innet.kv.eviction.policy import EvictionPolicy

_MOST_USES = 3
_USES_FOR_MAIN = 2
"""A block survives the small queue when it was asked for so often in it."""


@dataclass
class _Entry:
    size: int
    uses: int = 0


class _Queue:
    """First in, first out, and how large all of it is."""

    def __init__(self) -> None:
        self.entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self.size = 0

    def append(self, block: bytes, entry: _Entry) -> None:
        self.entries[block] = entry
        self.size += entry.size

    def remove(self, block: bytes) -> _Entry:
        entry = self.entries.pop(block)
        self.size -= entry.size
        return entry

    def pop_first(self) -> tuple[bytes, _Entry]:
        block, entry = self.entries.popitem(last=False)
        self.size -= entry.size
        return block, entry


class S3Fifo(EvictionPolicy):
    """A small queue that new blocks must survive, a main one, and a memory of what did not.

    What is asked for once passes through the small queue, a tenth of the store, and leaves the
    others alone.
    """

    def __init__(self, capacity: int) -> None:
        self._small_capacity = max(1, capacity // 10)
        self._main_capacity = max(1, capacity - self._small_capacity)
        self._small = _Queue()
        self._main = _Queue()
        self._ghosts = _Queue()
        self._demoted = _Queue()

    def insert(self, block: bytes, depth: int, size: int = 1) -> None:
        """See :class:`EvictionPolicy`."""
        known = block in self._ghosts.entries
        if known:
            self._ghosts.remove(block)
        (self._main if known else self._small).append(block, _Entry(size))

    def use(self, block: bytes) -> None:
        """See :class:`EvictionPolicy`."""
        if block in self._demoted.entries:
            self._main.append(block, self._demoted.remove(block))
        entry = self._queue_of(block).entries[block]
        entry.uses = min(entry.uses + 1, _MOST_USES)

    def demote(self, block: bytes) -> None:
        """See :class:`EvictionPolicy`."""
        self._demoted.append(block, _Entry(self._queue_of(block).remove(block).size))

    def remove(self, block: bytes) -> None:
        """See :class:`EvictionPolicy`."""
        self._queue_of(block).remove(block)

    def take_victim(self) -> bytes:
        """See :class:`EvictionPolicy`."""
        if self._demoted.entries:
            return self._demoted.pop_first()[0]
        small = self._small
        while small.entries and (small.size >= self._small_capacity or not self._main.entries):
            block, entry = small.pop_first()
            if entry.uses < _USES_FOR_MAIN:
                self._remember(block, entry)
                return block
            self._main.append(block, _Entry(entry.size))
            if self._main.size > self._main_capacity:
                break
        return self._take_from_main()

    def _queue_of(self, block: bytes) -> _Queue:
        if block in self._demoted.entries:
            return self._demoted
        return self._small if block in self._small.entries else self._main

    def _take_from_main(self) -> bytes:
        while True:
            block, entry = self._main.pop_first()
            if entry.uses == 0:
                return block
            entry.uses -= 1
            self._main.append(block, entry)

    def _remember(self, block: bytes, entry: _Entry) -> None:
        # As long as the main queue: what returns after that counts as new.
        self._ghosts.append(block, entry)
        while self._ghosts.size > self._main_capacity:
            self._ghosts.pop_first()
