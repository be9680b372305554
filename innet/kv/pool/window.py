"""Windows: how many blocks may be in flight."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Hashable, Iterable
from typing import Final

from innet._native import _core

_LARGE_BYTES: Final = 1 << 20
"""Larger blocks take no more places of a :class:`BlockWindow`."""
_REQUEST_BYTES: Final = 1 << 20
BLOCKS_OF_REQUEST: Final = 4
"""One request is for so many bytes of blocks, or for so many blocks if these are more. Blocks that
are put one by one share requests for so many, because few may be in flight."""
_MOST_FAMILIES: Final = 1024


class Window:
    """A semaphore whose waiters have deadlines, first come, first served.

    A semaphore within ``asyncio.timeout_at`` does the same with a timer for each waiter. Most are
    admitted long before their deadline: here one timer, for the earliest deadline, is enough.
    """

    def __init__(self, size: int) -> None:
        """``size``: how many may be in it."""
        self._free = size
        self._waiting: deque[tuple[asyncio.Future[None], float, int]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def enter(self, end_s: float = math.inf, places: int = 1) -> None:
        """Wait for places; :meth:`leave` gives them back.

        Args:
            end_s: deadline, by the event loop's clock.
            places: how many, all at once; at most the window has.

        Raises:
            TimeoutError: there was no room until then.
        """
        if self.try_enter(places):
            return
        entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((entered, end_s, places))
        self._wake_up_at(end_s)
        try:
            await entered
        except asyncio.CancelledError:
            has_entered = not entered.cancelled() and entered.exception() is None
            self.leave(places if has_entered else 0)
            raise

    def leave(self, places: int = 1) -> None:
        """Give the places to the first waiters."""
        self._free += places
        while self._waiting:
            entered, _, wanted = self._waiting[0]
            if not entered.done():
                if wanted > self._free:
                    break
                self._free -= wanted
                entered.set_result(None)
            self._waiting.popleft()
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def try_enter(self, places: int = 1) -> bool:
        """Take places if they are free and nobody waits."""
        if self._waiting or places > self._free:
            return False
        self._free -= places
        return True

    async def __aenter__(self) -> None:
        await self.enter()

    async def __aexit__(self, *_: object) -> None:
        self.leave()

    def _wake_up_at(self, end_s: float) -> None:
        if end_s == math.inf or (self._timer is not None and self._timer.when() <= end_s):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(end_s, self._end_waits, end_s)

    def _end_waits(self, until_s: float) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, deque()
        for waiter in waiting:
            entered, end_s, _ = waiter
            if entered.done():
                continue
            if end_s <= until_s:
                entered.set_exception(TimeoutError())
            else:
                self._waiting.append(waiter)
        self.leave(0)  # a waiter for fewer places may have been behind one that timed out
        if self._waiting:
            self._wake_up_at(min(end_s for _, end_s, _ in self._waiting))


class BlockWindow(Window):
    """The blocks in flight: so many of 1 MiB or more, or as many MiB of smaller ones, of which it
    has at most four times as many.

    Blocks count as large until one of their family has been seen.
    """

    def __init__(self, large_blocks: int) -> None:
        """``large_blocks``: how many of 1 MiB or more may be in flight."""
        self._size = large_blocks * _core.places_of_object(_LARGE_BYTES)
        super().__init__(self._size)
        self._block_bytes: dict[Hashable, int] = {}

    def on_seen(self, blocks: Iterable[tuple[Hashable, int]]) -> None:
        """Record the families and sizes of blocks; the largest of a family counts."""
        last: Hashable | None = None
        last_bytes = 0
        for family, block_bytes in blocks:
            if family is last and block_bytes <= last_bytes:
                continue
            last, last_bytes = family, max(block_bytes, self._block_bytes.get(family, 0))
            if len(self._block_bytes) == _MOST_FAMILIES:
                self._block_bytes.clear()
            self._block_bytes[family] = last_bytes

    def size_of(self, families: Iterable[Hashable]) -> int:
        """Bytes of the largest block that the families are known to have."""
        largest, last = 0, None
        for family in families:
            if family is not last:
                last, largest = family, max(largest, self._block_bytes.get(family, _LARGE_BYTES))
        return largest or _LARGE_BYTES

    def places(self, block_bytes: int, blocks: int = 1) -> int:
        """Places that blocks in flight take."""
        return min(self._size, blocks * _core.places_of_object(block_bytes))

    def together(self, block_bytes: int) -> int:
        """Blocks of one request or fetch: at least two of them are in flight."""
        blocks = max(BLOCKS_OF_REQUEST, _REQUEST_BYTES // block_bytes)
        return max(1, min(blocks, self.blocks(block_bytes) // 2))

    def used_together(self, block_bytes: int) -> int:
        """Blocks of one call, for a caller that copies some while others are in flight."""
        return max(1, _REQUEST_BYTES // block_bytes)

    def blocks(self, block_bytes: int) -> int:
        """How many blocks of that size may be in flight."""
        return self._size // self.places(block_bytes)
