"""Actions of a communicator beside its program: deciding rounds, serving arrays."""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Collection
from typing import Protocol

from innet.node.runtime import network_threads

Action = Callable[[], None]

_log = logging.getLogger(__name__)


class Background(Protocol):
    """Runs actions one at a time, in the order in which they were posted or are due."""

    def post(self, action: Action) -> None:
        """Run ``action`` soon. Thread-safe; does nothing once it is closed."""

    def post_at(self, time_s: float, action: Action) -> None:
        """Run ``action`` at that time of the process's clock (:meth:`Services.now_s`)."""

    def close(self) -> None:
        """Stop; no action runs any more when this returns."""


class BackgroundThread:
    """A :class:`Background` on a thread of its own, which starts with the first action."""

    def __init__(self, name: str, processors: Collection[int] = ()) -> None:
        """
        Args:
            name: of the thread.
            processors: on which it runs; by default those of the thread that starts it.
        """
        self._name = name
        self._processors = processors
        self._changed = threading.Condition()
        self._actions: list[tuple[float, int, Action]] = []
        self._order = itertools.count()
        self._thread: threading.Thread | None = None
        self._closed = False

    def post(self, action: Action) -> None:
        """Run ``action`` soon; does nothing once it is closed."""
        self.post_at(-math.inf, action)

    def post_at(self, time_s: float, action: Action) -> None:
        """Run ``action`` at that time of the monotonic clock."""
        with self._changed:
            if self._closed:
                return
            heapq.heappush(self._actions, (time_s, next(self._order), action))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                with network_threads(self._processors):
                    self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Run the actions posted so far, then stop."""
        with self._changed:
            thread = self._thread
            if thread is None:
                self._closed = True
        self.post(self._end)
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while not self._closed:
            try:
                self._next()()
            except Exception:  # one action must not end all that follow
                _log.exception("an action of %s failed", self._name)

    def _next(self) -> Action:
        with self._changed:
            while True:
                due_s = self._actions[0][0] - time.monotonic() if self._actions else None
                if due_s is not None and due_s <= 0:
                    return heapq.heappop(self._actions)[2]
                self._changed.wait(due_s)

    def _end(self) -> None:
        with self._changed:
            self._closed = True


class Alarm:
    """Runs one action in a background, at the earliest time that it was set to."""

    def __init__(self, background: Background, action: Action) -> None:
        self._background = background
        self._action = action
        self._due_s = math.inf

    def set(self, time_s: float) -> None:
        """Run the action by ``time_s``; infinity is never. Called in the background only."""
        if time_s < self._due_s:
            self._due_s = time_s
            self._background.post_at(time_s, lambda: self._ring(time_s))

    def _ring(self, time_s: float) -> None:
        if time_s != self._due_s:
            return  # it fired earlier, and its action set it again
        self._due_s = math.inf
        self._action()
