"""A background in which time passes as a test says."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable


class ManualBackground:
    """Actions run in :meth:`run_until`, on the caller's thread."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._order = itertools.count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []

    def post(self, action: Callable[[], None]) -> None:
        self.post_at(-math.inf, action)

    def post_at(self, time_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (time_s, next(self._order), action))

    def close(self) -> None:
        self._due.clear()

    def run_until(self, time_s: float) -> None:
        while self._due and self._due[0][0] <= time_s:
            due_s, _, action = heapq.heappop(self._due)
            self.now_s = max(self.now_s, due_s)
            action()
        self.now_s = time_s
