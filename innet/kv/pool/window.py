"""How many blocks are on their way at once."""

from __future__ import annotations

import asyncio
import math
from collections import deque


class Window:
    """So many at a time, in the order in which they came; each waits until a time of its own.

    A semaphore within ``asyncio.timeout_at`` does the same, with a timer for each that waits. Most
    come in long before their time: here one timer is enough, for the first time of all.
    """

    def __init__(self, size: int) -> None:
        """``size``: how many may be in it."""
        self._free = size
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def enter(self, end_s: float = math.inf) -> None:
        """Come in when there is a place, and :meth:`leave` it afterwards.

        Args:
            end_s: how long to wait for it, by the event loop's clock.

        Raises:
            TimeoutError: there was none until then.
        """
        if self._free:  # nobody waits
            self._free -= 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((place, end_s))
        self._wake_up_at(end_s)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled() and place.exception() is None:
                self.leave()  # it was given to one that does not want it any more
            raise

    def leave(self) -> None:
        """Give the place to who has waited longest."""
        while self._waiting:
            place, _ = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                break
        else:
            self._free += 1
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

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
        for place, end_s in waiting:
            if place.done():
                continue
            if end_s <= until_s:
                place.set_exception(TimeoutError())
            else:
                self._waiting.append((place, end_s))
        if self._waiting:
            self._wake_up_at(min(end_s for _, end_s in self._waiting))
