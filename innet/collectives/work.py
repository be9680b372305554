"""Operations under way."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from innet.collectives.operation_log import OnEnd

T = TypeVar("T")

_SIGNAL_CHECK_S = 0.1
_CANCEL_S = 1.0
"""More than a node takes to give an operation up."""


class Completion(Protocol):
    """Where a work's end comes from."""

    def wait(self, operation: int, timeout_s: float) -> tuple[int, str] | None:
        """Status and detail, or ``None`` when ``timeout_s`` passed first."""

    def done(self, operation: int) -> bool:
        """Whether ``wait`` would return at once."""

    def cancel(self, operation: int) -> None:
        """Give the operation up."""

    def deliver(self, operation: int, callback: Callable[[int, str], None]) -> None:
        """Call ``callback`` from a thread of the runtime's when the operation ends."""

    def discard(self, operation: int) -> None:
        """Nobody will ask for the end of an operation that was not delivered."""


class Work(Generic[T]):
    """An operation under way: wait for it, ask it, or ``await`` it.

    >>> work = comm.iallreduce(gradient)        # doctest: +SKIP
    >>> total = work.wait()                     # doctest: +SKIP
    >>> total = await comm.iallreduce(gradient) # doctest: +SKIP
    """

    _delivered = True  # of one whose making was interrupted, for __del__

    def __init__(
        self,
        operation: int,
        completion: Completion,
        finish: Callable[[], T],
        error_of: Callable[[int, str], BaseException | None],
        on_end: OnEnd,
    ) -> None:
        self._operation = operation
        self._completion = completion
        self._finish = finish
        self._error_of = error_of
        self._on_end = on_end
        self._lock = threading.Lock()
        self._future: concurrent.futures.Future[T] = concurrent.futures.Future()
        # Running from the start: who gives up awaiting it does not cancel the operation.
        self._future.set_running_or_notify_cancel()
        self._delivered = False

    def wait(self, timeout_s: float | None = None) -> T:
        """The result.

        Args:
            timeout_s: how long to wait here; the operation itself has its own deadline and goes on.

        Raises:
            TimeoutError: ``timeout_s`` passed first.
            CollectiveError: the operation failed.
        """
        with self._lock:
            delivered = self._delivered
        if not delivered and not self._future.done():
            self._wait_natively(timeout_s)
            timeout_s = 0.0 if self._future.done() else timeout_s
        return self._future.result(timeout_s)

    def wait_or_cancel(self) -> T:
        """The result, for a caller who keeps nothing of the operation when this is interrupted.

        After an interrupt, the operation does not read or write the caller's arrays any more, and
        other ranks get what this rank was to contribute.
        """
        try:
            return self.wait()
        except BaseException:
            if not self._future.done():
                self.cancel()
                with suppress(TimeoutError):
                    self._wait_natively(_CANCEL_S)
            raise

    def done(self) -> bool:
        """Whether :meth:`wait` would return at once."""
        with self._lock:
            delivered = self._delivered
        return self._future.done() or (not delivered and self._completion.done(self._operation))

    def cancel(self) -> None:
        """Give the operation up here; unless it has ended, waiting for it raises ``Cancelled``.

        Other ranks go on, and miss what this one has not given yet.
        """
        self._completion.cancel(self._operation)

    def exception(self) -> BaseException | None:
        """The error of a finished operation, or ``None`` when it went well; waits for its end."""
        try:
            self.wait()
        except Exception as error:
            return error
        return None

    def add_done_callback(self, callback: Callable[[Work[T]], None]) -> None:
        """Call ``callback(self)`` at the end: from a thread of the runtime's, or at once."""
        self._future.add_done_callback(lambda _: callback(self))
        self._deliver()

    def __del__(self) -> None:
        # Nobody can wait for it any more: its end and its buffers are not kept for ever.
        if not self._delivered and not self._future.done():
            self._completion.discard(self._operation)

    def __await__(self) -> Generator[None, None, T]:
        self._deliver()
        return (yield from asyncio.wrap_future(self._future).__await__())

    def _wait_natively(self, timeout_s: float | None) -> None:
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = (
                _SIGNAL_CHECK_S if end_s is None else min(_SIGNAL_CHECK_S, end_s - time.monotonic())
            )
            ended = self._completion.wait(self._operation, max(0.0, left_s))
            if ended is not None:
                self._end(*ended)
                return
            if self._future.done():
                return
            if end_s is not None and time.monotonic() >= end_s:
                raise TimeoutError(f"not done within {timeout_s:g} s; the operation goes on")

    def _deliver(self) -> None:
        with self._lock:
            if self._delivered or self._future.done():
                return
            self._delivered = True
        self._completion.deliver(self._operation, self._end)

    def _end(self, status: int, detail: str) -> None:
        error: BaseException | None
        try:
            error = self._error_of(status, detail)
            if error is None:
                result = self._finish()
        except Exception as problem:
            error = problem
        try:
            self._on_end(error)
        except Exception as problem:  # the caller must not wait for ever
            error = error or problem
        if error is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(result)
