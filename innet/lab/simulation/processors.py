"""Computing on the hosts of a simulation: it takes time, more on a slow host, none on a paused."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable


class Processors:
    """One processor on each host, for programs that compute in virtual time.

    Example::

        await processors.compute("h3", 0.030)
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        """``now_s``: the simulation's clock."""
        self._now_s = now_s
        self._slowness: defaultdict[str, float] = defaultdict(lambda: 1.0)
        self._paused_since_s: dict[str, float] = {}
        self._paused_s: defaultdict[str, float] = defaultdict(float)
        self._resumed: dict[str, asyncio.Event] = {}

    async def compute(self, host: str, duration_s: float) -> None:
        """Let ``host`` compute for what takes ``duration_s`` at its usual speed."""
        left_s = duration_s * self._slowness[host]
        while left_s > 0:
            paused_s = self._pause_so_far_s(host)
            await asyncio.sleep(left_s)
            left_s = self._pause_so_far_s(host) - paused_s
            if host in self._paused_since_s:
                await self._resumed[host].wait()

    def slow_down(self, host: str, factor: float) -> None:
        """What is computed from now on takes ``factor`` times as long as it would."""
        self._slowness[host] *= factor

    def pause(self, host: str) -> None:
        """The host stands still."""
        self._paused_since_s[host] = self._now_s()
        self._resumed[host] = asyncio.Event()

    def resume(self, host: str) -> None:
        """It goes on, and computes what it has missed."""
        self._paused_s[host] = self._pause_so_far_s(host)
        del self._paused_since_s[host]
        self._resumed.pop(host).set()

    def _pause_so_far_s(self, host: str) -> float:
        since_s = self._paused_since_s.get(host)
        return self._paused_s[host] + (0.0 if since_s is None else self._now_s() - since_s)
