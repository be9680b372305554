"""An asyncio event loop whose clock is a simulation's.

Coroutines written for real time run in virtual time: ``asyncio.sleep``, ``asyncio.timeout`` and
whatever else looks at the loop's clock. Whenever nothing is ready to run, the loop lets the
simulation go on, up to its own next timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class _Selector:
    """What the loop takes for its source of events: time passes inside :meth:`select`."""

    def __init__(self, advance: Callable[[float | None], None]) -> None:
        self._advance = advance

    def select(self, timeout_s: float | None) -> list[Any]:
        """Let up to ``timeout_s`` pass; ``None``: as long as it takes until something happens."""
        if timeout_s is None or timeout_s > 0:
            self._advance(timeout_s)
        return []


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """Runs coroutines in the time of a simulation. It has no sockets, pipes or subprocesses."""

    def __init__(self, now_s: Callable[[], float], advance: Callable[[float | None], None]) -> None:
        """
        Args:
            now_s: the simulation's clock.
            advance: lets at most so many seconds pass, or with ``None`` any time, until something
                happens that coroutines may wait for.
        """
        super().__init__()
        self._now_s = now_s
        # Of a loop's own workings, BaseEventLoop leaves these to its subclasses.
        self._selector = _Selector(advance)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Seconds since the simulation began."""
        return self._now_s()

    def _process_events(self, event_list: list[Any]) -> None:
        """Nothing: what happens in the simulation calls back by itself."""

    def _write_to_self(self) -> None:
        """Nothing: no other thread has to wake this loop."""
