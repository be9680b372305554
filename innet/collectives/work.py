"""Operations under way: the work that a call returns, and the promise that its maker ends."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar

from innet.collectives.completion import Completion, OnEnd
from innet.errors import Cancelled, CollectiveError
from innet.worker.collector import Delivery

T = TypeVar("T")
S = TypeVar("S")
P = ParamSpec("P")

Complete = Callable[[Completion], T]
"""Makes the result of an operation that has ended, or raises its error."""

_SIGNAL_CHECK_S = 0.1
_CANCEL_S = 1.0
"""More than a node takes to cancel an operation."""


def timeout_or(timeout_s: float | None, default_s: float) -> float:
    """``timeout_s``, or the default when none was given.

    Raises:
        CollectiveError: it is not above 0. An operation without time would always fail; to poll an
            operation, call ``work.done()``.
    """
    if timeout_s is None:
        return default_s
    if not isinstance(timeout_s, int | float):
        raise CollectiveError(f"timeout_s={timeout_s!r} is no number of seconds")
    if not timeout_s > 0:
        raise CollectiveError(
            f"a timeout of {timeout_s:g} s leaves an operation no time: give a number above 0, or "
            "none for the default. To look whether an operation has ended, call work.done()"
        )
    return timeout_s


class CompletionSource(Delivery, Protocol):
    """Delivers the completions of a node's operations, each once."""

    def wait(self, operation: int, timeout_s: float) -> tuple[int, str] | None:
        """Status and detail, or ``None`` when ``timeout_s`` passed first."""

    def done(self, operation: int) -> bool:
        """Whether ``wait`` would return at once."""

    def discard(self, operation: int) -> None:
        """Drop the completion of an operation whose work was deleted."""


class Work(Generic[T]):
    """An operation under way: wait for it, poll it, or ``await`` it.

    It has the methods of a :class:`concurrent.futures.Future`, which
    :func:`concurrent.futures.wait` and :func:`asyncio.wrap_future` take: :meth:`future`.

    >>> work = comm.iallreduce(gradient)        # doctest: +SKIP
    >>> total = work.result(timeout=10)         # doctest: +SKIP
    >>> total = await comm.iallreduce(gradient) # doctest: +SKIP
    """

    def __init__(self, complete: Complete[T] | None = None, on_end: OnEnd | None = None) -> None:
        """
        Args:
            complete: makes the result of an operation that ends with a completion.
            on_end: receives the error, or ``None``, before waiting threads continue.
        """
        self._complete = complete
        self._on_end = on_end
        self._lock = threading.Lock()
        self._is_ended = False
        self._future: concurrent.futures.Future[T] = concurrent.futures.Future()
        # Running from the start: cancelling an `await` does not cancel the operation.
        self._future.set_running_or_notify_cancel()

    def wait(self, timeout_s: float | None = None) -> T:
        """The result.

        Args:
            timeout_s: how long to wait here; the operation itself has its own deadline and goes on.

        Raises:
            TimeoutError: ``timeout_s`` passed first.
            CollectiveError: the operation failed.
        """
        if not self._future.done() and not self._await_end(timeout_s):
            raise TimeoutError(f"not done within {timeout_s:g} s; the operation goes on")
        return self._future.result()

    def result(self, timeout: float | None = None) -> T:
        """:meth:`wait`, by the name and the parameter that Python's futures have."""
        return self.wait(timeout)

    def future(self) -> concurrent.futures.Future[T]:
        """A future of Python that ends with the operation; cancelling it changes nothing."""
        self._subscribe()
        return self._future

    def running(self) -> bool:
        """Whether it has not ended."""
        return not self.done()

    def cancelled(self) -> bool:
        """Whether it has ended because it was cancelled."""
        return self.done() and isinstance(self.exception(), Cancelled)

    def wait_or_cancel(self) -> T:
        """The result, for a caller that drops the operation when it is interrupted.

        After an interrupt, the operation does not read or write the caller's arrays any more, and
        other ranks get what this rank was to contribute.
        """
        try:
            return self.wait()
        except BaseException:
            if not self._future.done():
                self.cancel()
                self._await_end(_CANCEL_S)
            raise

    def done(self) -> bool:
        """Whether :meth:`wait` would return at once."""
        return self._future.done()

    def cancel(self) -> None:
        """Give the operation up here; unless it has ended, waiting for it raises ``Cancelled``.

        Other ranks continue, and miss contributions that this rank has not sent yet.
        """

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error of an operation, or ``None`` when it went well; waits for its end.

        Raises:
            TimeoutError: ``timeout`` seconds passed first; the operation goes on.
        """
        if not self._future.done() and not self._await_end(timeout):
            raise TimeoutError(f"not done within {timeout:g} s; the operation goes on")
        return self._future.exception()

    def add_done_callback(self, callback: Callable[[Work[T]], None]) -> None:
        """Call ``callback(self)`` at the end: from a thread of the runtime, or at once."""
        self._future.add_done_callback(lambda _: callback(self))
        self._subscribe()

    def __await__(self) -> Generator[None, None, T]:
        self._subscribe()
        return (yield from asyncio.wrap_future(self._future).__await__())

    def _await_end(self, timeout_s: float | None) -> bool:
        """Whether it ended within ``timeout_s``."""
        with suppress(TimeoutError):
            self._future.exception(timeout_s)
        return self._future.done()

    def _subscribe(self) -> None:
        """Let the operation end without a thread that waits."""

    def _end(self, completion: Completion) -> None:
        """Complete the operation; only the first end counts."""
        if not self._claim_end():
            return
        assert self._complete is not None, "a work without it ends with a result or an error"
        try:
            result = self._complete(completion)
        except BaseException as error:  # an interrupt too: others may wait for the same work
            self._settle(error)
        else:
            self._settle(None, result)

    def _claim_end(self) -> bool:
        with self._lock:
            is_first, self._is_ended = not self._is_ended, True
        return is_first

    def _settle(self, error: BaseException | None, *result: T) -> None:
        try:
            if self._on_end is not None:
                self._on_end(error)
        except Exception as problem:  # the caller must not wait for ever
            error = error or problem
        if error is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(*result)


class NodeWork(Work[T]):
    """The work of one operation of the node. A thread that waits for it drives the node."""

    _is_delivered = True  # of one whose making was interrupted, for __del__

    def __init__(
        self,
        operation: int,
        source: CompletionSource,
        complete: Complete[T],
        on_end: OnEnd | None = None,
    ) -> None:
        super().__init__(complete, on_end)
        self._operation = operation
        self._source = source
        self._is_delivered = False

    def done(self) -> bool:
        """Whether :meth:`wait` would return at once."""
        if self._future.done():
            return True
        with self._lock:
            delivered = self._is_delivered
        return not delivered and self._source.done(self._operation)

    def cancel(self) -> None:
        """Give the operation up here; unless it has ended, waiting for it raises ``Cancelled``.

        Other ranks continue, and miss contributions that this rank has not sent yet.
        """
        self._source.cancel(self._operation)

    def __del__(self) -> None:
        # No thread can wait for it any more: the node need not keep its completion and its buffers.
        if not self._is_delivered and not self._future.done():
            self._source.discard(self._operation)

    def _await_end(self, timeout_s: float | None) -> bool:
        with self._lock:
            delivered = self._is_delivered
        if delivered or self._future.done():
            return super()._await_end(timeout_s)
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = _SIGNAL_CHECK_S
            if end_s is not None:
                left_s = max(0.0, min(left_s, end_s - time.monotonic()))
            ended = self._source.wait(self._operation, left_s)
            if ended is not None:
                self._end_natively(*ended)
            if self._future.done():
                return True
            if end_s is not None and time.monotonic() >= end_s:
                return False

    def _subscribe(self) -> None:
        with self._lock:
            if self._is_delivered or self._future.done():
                return
            self._is_delivered = True
        self._source.deliver(self._operation, self._end_natively)

    def _end_natively(self, status: int, detail: str) -> None:
        self._end(Completion.of_node(status, detail))


@dataclass(frozen=True, slots=True)
class Deadline:
    """The time after which a promise fails.

    Attributes:
        at_s: on the monotonic clock.
        give_up: ends the promise, unless its maker is about to; called once the time has passed.
    """

    at_s: float
    give_up: Callable[[], None]


class Promise(Work[T]):
    """A work that its maker ends. Thread-safe; only the first end counts."""

    def __init__(
        self,
        complete: Complete[T] | None = None,
        on_end: OnEnd | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        super().__init__(complete, on_end)
        self._deadline = deadline
        self._timer: threading.Timer | None = None
        self._cancel: Callable[[], None] | None = None
        self._is_cancelled = False

    @property
    def is_cancelled(self) -> bool:
        """Whether :meth:`cancel` was called."""
        return self._is_cancelled

    def end(self, completion: Completion) -> None:
        """End with what ``complete`` makes of ``completion``."""
        self._end(completion)

    def succeed(self, result: T) -> None:
        """End with a result."""
        if self._claim_end():
            self._settle(None, result)

    def fail(self, error: BaseException) -> None:
        """End with an error."""
        if self._claim_end():
            self._settle(error)

    def end_with(self, work: Work[T]) -> None:
        """End as ``work`` ends; cancelling this one cancels that."""

        def end(_ended: Work[T]) -> None:
            try:
                result = work.wait()
            except Exception as error:
                self.fail(error)
            else:
                self.succeed(result)

        self.cancel_with(work.cancel)
        work.add_done_callback(end)

    def cancel_with(self, cancel: Callable[[], None]) -> None:
        """Set the function that cancels the work; it is called at once if the work is cancelled."""
        with self._lock:
            self._cancel = cancel
            is_cancelled = self._is_cancelled
        if is_cancelled:
            cancel()

    def cancel(self) -> None:
        """Give the operation up here; unless it has ended, waiting for it raises ``Cancelled``.

        Other ranks continue, and miss contributions that this rank has not sent yet.
        """
        with self._lock:
            self._is_cancelled = True
            cancel = self._cancel
        if cancel is not None:
            cancel()

    def done(self) -> bool:
        """Whether :meth:`wait` would return at once."""
        self._check_deadline()
        return self._future.done()

    def _await_end(self, timeout_s: float | None) -> bool:
        deadline = self._deadline
        if deadline is not None:
            left_s = max(0.0, deadline.at_s - time.monotonic())
            if timeout_s is not None and timeout_s < left_s:
                return super()._await_end(timeout_s)
            if super()._await_end(left_s):
                return True
            self._check_deadline()
            timeout_s = None if timeout_s is None else timeout_s - left_s
        return super()._await_end(timeout_s)

    def _subscribe(self) -> None:
        with self._lock:
            if self._deadline is None or self._timer is not None or self._is_ended:
                return
            left_s = max(0.0, self._deadline.at_s - time.monotonic())
            self._timer = threading.Timer(left_s, self._check_deadline)
            self._timer.daemon = True
            self._timer.start()

    def _check_deadline(self) -> None:
        with self._lock:
            deadline = self._deadline
            if self._is_ended or deadline is None or time.monotonic() < deadline.at_s:
                return
            self._deadline = None
        deadline.give_up()

    def _settle(self, error: BaseException | None, *result: T) -> None:
        with self._lock:
            timer = self._timer
        if timer is not None:
            timer.cancel()  # its thread ends now, not at the deadline
        super()._settle(error, *result)


def blocking(start: Callable[Concatenate[S, P], Work[T]]) -> Callable[Concatenate[S, P], T]:
    """Decorator of a method that starts an operation: it waits for the end, returns the result.

    :func:`non_blocking` is the method itself, for a second name.
    """

    @functools.wraps(start)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return start(self, *args, **kwargs).wait_or_cancel()

    result = start.__annotations__["return"].removeprefix("Work[").removesuffix("]")
    signature = inspect.signature(start).replace(return_annotation=result)
    vars(call).update(__signature__=signature, **{_START: start})
    call.__annotations__ = {**start.__annotations__, "return": result}
    return call


def non_blocking(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], Work[T]]:
    """The method that starts the operation of a :func:`blocking` method, and returns its work."""
    start: Callable[Concatenate[S, P], Work[T]] = vars(method)[_START]
    return start


_START = "_innet_start"
