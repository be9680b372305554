"""Collectives made of several operations, each of which follows from the result of the last."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Generator
from typing import Any, Generic, Protocol, TypeVar

from innet._native import _core
from innet.collectives.operation import Operation
from innet.collectives.work import Completion, Work

T = TypeVar("T")

Steps = Generator[Operation[Any], Any, T]
"""Yields operations, is sent the result of each, and returns the collective's own result."""


class StartSteps(Protocol):
    """Starts a collective of several operations, at most ``most_steps``."""

    def __call__(self, steps: Steps[T], most_steps: int, what: str) -> Work[T]:
        """The collective under way; ``what`` names it for people."""


class Staged(Generic[T]):
    """Runs the steps of a collective; a :class:`~innet.collectives.work.Completion` of one.

    The next operation starts as soon as the last has ended, on the collector's thread, whether or
    not somebody waits: another rank may be waiting for it. The operations take their sequence
    numbers in the order of the call, so that what is called later keeps its own.

    Args:
        steps: yields at most as many operations as there are numbers.
        numbers: sequence numbers kept for the steps, which follow each other.
        submit: starts an operation under a number, with so many reserved behind it, and returns
            the packet path's number of it.
        release: gives sequence numbers up that are not needed.
        fail: tells the other ranks that nothing comes under these sequence numbers, and why.
        collector: tells when operations end.
    """

    def __init__(
        self,
        steps: Steps[T],
        numbers: range,
        submit: Callable[[Operation[Any], int, int], int],
        release: Callable[[range], None],
        fail: Callable[[range, BaseException | str], None],
        collector: Completion,
    ) -> None:
        self._steps = steps
        self._left = numbers
        self._submit = submit
        self._release = release
        self._fail = fail
        self._collector = collector
        self._current = -1
        self._given_up = False
        self._ended: concurrent.futures.Future[tuple[int, str]] = concurrent.futures.Future()
        self._ended.set_running_or_notify_cancel()
        self._error: Exception | None = None
        self._result: T | None = None

    def start(self) -> None:
        """Submit the first operation; the caller fails the numbers when this raises."""
        self._run(next(self._steps), reserves=len(self._left) - 1)

    def result(self) -> T:
        """What the steps returned, or the error that ended them between two operations."""
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]

    def wait(self, operation: int, timeout_s: float) -> tuple[int, str] | None:
        """Status and detail of the last operation; ``None`` when ``timeout_s`` passed first."""
        try:
            return self._ended.result(timeout_s)
        except TimeoutError:
            return None

    def done(self, operation: int) -> bool:
        """Whether all operations have ended."""
        return self._ended.done()

    def cancel(self, operation: int) -> None:
        """Give the operation under way up, and so those that would follow."""
        self._given_up = True
        self._collector.cancel(self._current)

    def discard(self, operation: int) -> None:
        """Nothing is kept for who would have asked."""

    def deliver(self, operation: int, callback: Callable[[int, str], None]) -> None:
        """Call ``callback(status, detail)`` when all have ended."""
        self._ended.add_done_callback(lambda ended: callback(*ended.result()))

    def _run(self, operation: Operation[Any], reserves: int = 0) -> None:
        self._current = self._submit(operation, self._left[0], reserves)
        self._left = self._left[1:]

        def on_end(status: int, detail: str) -> None:
            if status != _core.STATUS_DONE:
                self._end(status, detail)
            elif self._given_up:
                self._end(_core.STATUS_CANCELLED, "cancelled between two of its operations")
            else:
                self._advance(operation)

        self._collector.deliver(self._current, on_end)
        if self._given_up:  # while this one was being started
            self._collector.cancel(self._current)

    def _advance(self, operation: Operation[Any]) -> None:
        try:
            self._run(self._steps.send(operation.finish()))
        except StopIteration as stop:
            self._result = stop.value
            self._end(_core.STATUS_DONE, "")
        except Exception as error:
            self._error = error
            self._end(_core.STATUS_DONE, "")

    def _end(self, status: int, detail: str) -> None:
        self._steps.close()  # lets it undo what it had done for an operation that failed
        if status != _core.STATUS_DONE:
            self._fail(self._left, detail)
        elif self._error is not None:
            self._fail(self._left, self._error)
        else:
            self._release(self._left)
        self._ended.set_result((status, detail))
