"""What communicators do apart from their programs, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

Action = Callable[[], None]


class LoopBackground:
    """A :class:`~innet.worker.background.Background` on a simulation's loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_error: Callable[[Exception], None]
    ) -> None:
        """
        Args:
            loop: of the simulation.
            on_error: hears of what an action raises.
        """
        self._loop = loop
        self._on_error = on_error
        self._closed = False

    def post(self, action: Action) -> None:
        """Run ``action`` at this instant, after what was posted before."""
        self._loop.call_soon(self._run, action)

    def post_at(self, time_s: float, action: Action) -> None:
        """Run ``action`` at ``time_s`` of the simulation."""
        self._loop.call_at(time_s, self._run, action)

    def close(self) -> None:
        """Nothing runs any more."""
        self._closed = True

    def _run(self, action: Action) -> None:
        if self._closed:
            return
        try:
            action()
        except Exception as error:  # the loop would only print it
            self._on_error(error)
