"""An operation of several stages: its end comes from whoever runs the last one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from innet.collectives.operation_log import OnEnd
from innet.collectives.work import Work

T = TypeVar("T")

_ENDED = (0, "")


class Exchange(Generic[T]):
    """Ends once, with a result or an error; the stages' threads say so. Thread-safe.

    To a :class:`Work` it is where the work's end comes from: taken once, by a wait or a callback.
    """

    def __init__(self) -> None:
        self._ended = threading.Condition()
        self._is_ended = False
        self._is_taken = False
        self._result: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[int, str], None]] = []
        self._cancel_stage: Callable[[], None] = lambda: None

    def work(self, on_end: OnEnd) -> Work[T]:
        """What the caller holds; ``on_end`` is told of the end."""
        return Work(0, self, self._taken, lambda _status, _detail: self._error, on_end)

    def set_stage(self, cancel: Callable[[], None]) -> None:
        """``cancel`` gives up the stage that is under way now."""
        self._cancel_stage = cancel

    def succeed(self, result: T) -> None:
        """End with ``result``."""
        self._end(result, None)

    def fail(self, error: BaseException) -> None:
        """End with ``error``."""
        self._end(None, error)

    def _end(self, result: T | None, error: BaseException | None) -> None:
        """Only the first end counts: what the end itself sets off may fail, and is told as one."""
        with self._ended:
            if self._is_ended:
                return
            self._is_ended = True
            self._result, self._error = result, error
            callbacks, self._callbacks = self._callbacks, []
            self._is_taken = bool(callbacks)
            self._ended.notify_all()
        for callback in callbacks:
            callback(*_ENDED)

    def _taken(self) -> T:
        return cast(T, self._result)  # it ended without an error, and so with a result

    # What `Work` asks (its Completion).

    def wait(self, _operation: int, timeout_s: float) -> tuple[int, str] | None:
        """As :meth:`Completion.wait`."""
        with self._ended:
            if not self._ended.wait_for(lambda: self._is_ended, timeout_s) or self._is_taken:
                return None
            self._is_taken = True
            return _ENDED

    def done(self, _operation: int) -> bool:
        """As :meth:`Completion.done`."""
        return self._is_ended

    def cancel(self, _operation: int) -> None:
        """As :meth:`Completion.cancel`."""
        self._cancel_stage()

    def discard(self, _operation: int) -> None:
        """As :meth:`Completion.discard`: nothing is kept for who would have asked."""

    def deliver(self, _operation: int, callback: Callable[[int, str], Any]) -> None:
        """As :meth:`Completion.deliver`."""
        with self._ended:
            if not self._is_ended:
                self._callbacks.append(callback)
                return
            if self._is_taken:
                return
            self._is_taken = True
        callback(*_ENDED)
