"""Operations that wait for something here before, or instead of, an operation of the node."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from innet._native import _core


class Posted:
    """An operation that ends when it is told to; a :class:`~innet.collectives.work.Completion`.

    With a deadline, it ends by itself when that has passed and nothing else has ended it.
    """

    def __init__(self, timeout_s: float | None = None, overdue: str = "") -> None:
        """Args: ``overdue`` says what was missing, should ``timeout_s`` pass."""
        self._ended = threading.Condition()
        self._end: tuple[int, str] | None = None
        self._claimed = False
        self._callback: Callable[[int, str], None] | None = None
        self._deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        self._overdue = overdue
        self._timer: threading.Timer | None = None
        self.give_up: Callable[[], None] = lambda: None

    def claim(self) -> bool:
        """Whether the caller may end it; nobody else can from then on."""
        with self._ended:
            free = self._end is None and not self._claimed
            self._claimed = True
            return free

    def end(self, status: int, detail: str) -> None:
        """It has ended; only the first end counts."""
        with self._ended:
            if self._end is not None:
                return
            self._end = (status, detail)
            self._ended.notify_all()
            callback, timer = self._callback, self._timer
        if timer is not None:
            timer.cancel()  # its thread ends now, not at the deadline
        if callback is not None:
            callback(status, detail)

    def wait(self, operation: int, timeout_s: float) -> tuple[int, str] | None:
        """Status and detail, or ``None`` when ``timeout_s`` passed first."""
        with self._ended:
            self._ended.wait_for(lambda: self._end is not None, timeout_s)
        self._look_at_clock()
        return self._end

    def done(self, operation: int) -> bool:
        """Whether it has ended."""
        self._look_at_clock()
        return self._end is not None

    def cancel(self, operation: int) -> None:
        """Give it up."""
        self._end_early(_core.STATUS_CANCELLED, "given up")

    def discard(self, operation: int) -> None:
        """Nothing is kept for who would have asked."""

    def deliver(self, operation: int, callback: Callable[[int, str], None]) -> None:
        """Call ``callback`` at the end, from whichever thread ends it."""
        with self._ended:
            end = self._end
            if end is None:
                self._callback = callback
                self._start_timer()
        if end is not None:
            callback(*end)

    def _start_timer(self) -> None:
        if self._deadline_s is not None:
            left_s = max(0.0, self._deadline_s - time.monotonic())
            self._timer = threading.Timer(left_s, self._look_at_clock)
            self._timer.daemon = True
            self._timer.start()

    def _look_at_clock(self) -> None:
        if self._deadline_s is not None and time.monotonic() >= self._deadline_s:
            self._end_early(_core.STATUS_DEADLINE_EXCEEDED, self._overdue)

    def _end_early(self, status: int, detail: str) -> None:
        if self.claim():
            self.give_up()
            self.end(status, detail)
