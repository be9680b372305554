"""Operations under way, as PyTorch sees them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, Self

import torch
from torch.distributed import Work

from innet.torch_backend.compilation import not_compiled
from innet.torch_backend.profiling import ProfilerEvent

_NO_TIMEOUT = timedelta(0)


class Pending(Protocol):
    """What a part waits for; :class:`innet.collectives.Work` is the usual one."""

    def wait(self, timeout_s: float | None = None) -> Any:
        """Wait for the end; raises its error, or ``TimeoutError`` when ``timeout_s`` passed."""

    def done(self) -> bool:
        """Whether :meth:`wait` would return at once."""

    def cancel(self) -> None:
        """Give it up."""

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call ``callback`` at the end, or at once when that has come."""


class Part:
    """One operation of the network, and what is left to do with its result: done once."""

    __slots__ = ("_ended", "_finish", "_lock", "error", "pending")

    def __init__(self, pending: Pending, finish: Callable[[], None] | None) -> None:
        self.pending = pending
        self.error: BaseException | None = None
        self._finish = finish
        self._lock = threading.Lock()
        self._ended = False

    def settle(self, timeout_s: float | None) -> None:
        """Wait for the network's operation, then finish, whoever comes first; sets ``error``.

        Raises:
            TimeoutError: ``timeout_s`` passed first.
        """
        error: BaseException | None = None
        try:
            self.pending.wait(timeout_s)
        except TimeoutError:
            raise
        except Exception as problem:
            error = problem
        with self._lock:
            if self._ended:
                return
            if error is None and self._finish is not None:
                try:
                    self._finish()
                except Exception as problem:
                    error = problem
            self.error = error
            self._finish = None
            self._ended = True


class Together:
    """Parts that end together; a :class:`Pending` as well."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts

    def settle(self, timeout_s: float | None) -> BaseException | None:
        """Wait for all; the error of the first that failed.

        Raises:
            TimeoutError: ``timeout_s`` passed first.
        """
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        error = None
        # After a failure too, all are waited for: they may still write to the caller's tensors.
        for part in self.parts:
            part.settle(None if end_s is None else max(0.0, end_s - time.monotonic()))
            error = error or part.error
        return error

    def wait(self, timeout_s: float | None = None) -> None:
        """:meth:`settle` that raises the error."""
        error = self.settle(timeout_s)
        if error is not None:
            raise error

    def done(self) -> bool:
        """Whether :meth:`wait` would return at once."""
        return all(part.pending.done() for part in self.parts)

    def cancel(self) -> None:
        """Give all up."""
        for part in self.parts:
            part.pending.cancel()

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call ``callback`` when the network is done with all of them."""
        self._after(0, callback)

    def _after(self, place: int, callback: Callable[[Any], None]) -> None:
        if place == len(self.parts):
            callback(self)
        else:
            self.parts[place].pending.add_done_callback(lambda _: self._after(place + 1, callback))


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy under way between a device and the host.

    Attributes:
        wait: blocks until it is done.
        precede: makes what the caller next asks of the device wait for it.
    """

    wait: Callable[[], None]
    precede: Callable[[], None]


class CollectiveWork(Work):
    """One operation: what ``async_op=True`` returns, and what DistributedDataParallel waits for.

    ``torch.futures.Future`` alone would not do: the work that PyTorch wraps around one swallows
    errors in ``wait()``.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        result: Sequence[torch.Tensor],
        callbacks: Executor,
        source_of: Callable[[], int] | None = None,
        stored: Sequence[Copy] = (),
    ) -> None:
        """A work that ends with its parts.

        Args:
            parts: the operations of the network that it is made of.
            result: the tensors that hold the result then.
            callbacks: where callbacks of futures run: they may wait for other operations, so it
                must be no thread that completes operations.
            source_of: the sender, of a received message that has come.
            stored: copies of the result to a device, which the ends of parts add to.
        """
        super().__init__()
        self._parts = Together(parts)
        self._result = result
        self._callbacks = callbacks
        self._source_of = source_of
        self._stored = stored
        self._lock = threading.Lock()
        self._future: torch.futures.Future[list[torch.Tensor]] | None = None
        self._event: ProfilerEvent | None = None

    @classmethod
    def together(cls, works: Iterable[Self], callbacks: Executor) -> Self:
        """The work that ends when all of ``works`` have."""
        works = list(works)
        return cls(
            [Part(work._parts, work._after_end) for work in works],
            [tensor for work in works for tensor in work._result],
            callbacks,
        )

    @not_compiled
    def wait(self, timeout: timedelta = _NO_TIMEOUT) -> bool:
        """Wait for the end.

        Args:
            timeout: how long to wait here, zero for as long as the operation's own deadline.

        Raises:
            CollectiveError: the operation failed.
            TimeoutError: ``timeout`` passed first; the operation goes on.
        """
        error = self._parts.settle(timeout.total_seconds() if timeout > _NO_TIMEOUT else None)
        if error is not None:
            raise error
        self._after_end()
        return True

    def synchronize(self) -> None:
        """:meth:`wait`: what a stream has to wait for, it waits for there."""
        self.wait()

    @not_compiled
    def is_completed(self) -> bool:
        """Whether :meth:`wait` would return at once."""
        if not self._parts.done():
            return False
        self._parts.settle(None)
        return True

    def is_success(self) -> bool:
        """Whether the operation has ended well."""
        return self.exception() is None and self.is_completed()

    def exception(self) -> BaseException | None:
        """The error of an operation that has ended, or ``None``."""
        return self._parts.settle(None) if self._parts.done() else None

    def result(self) -> list[torch.Tensor]:
        """The tensors with the result; valid once the operation has ended."""
        return list(self._result)

    def source_rank(self) -> int:
        """The rank that sent a received message, -1 for other operations and before it came."""
        return -1 if self._source_of is None else self._source_of()

    _source_rank = source_rank

    def cancel(self) -> None:
        """Give the operation up here; waiting for it raises ``Cancelled`` unless it has ended."""
        self._parts.cancel()

    def ends(self, event: ProfilerEvent) -> None:
        """``event`` ends when the network is done, before :meth:`wait` returns."""
        self._event = event
        self._parts.add_done_callback(lambda _: event.end())

    @not_compiled
    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """A future of :meth:`result`; its callbacks may call and wait for other operations."""
        with self._lock:
            if self._future is not None:
                return self._future
            ended: torch.futures.Future[None] = torch.futures.Future()
            # DistributedDataParallel crashes on a future whose exception was set from Python; an
            # exception raised in a callback reaches it well.
            future = self._future = ended.then(self._outcome)
        if self._parts.done():
            # Whoever has waited for the end may take the future's value at once, and nobody else
            # has a callback on it yet.
            ended.set_result(None)
        else:
            self._parts.add_done_callback(lambda _: self._hand_over(ended))
        return future

    def _hand_over(self, ended: torch.futures.Future[None]) -> None:
        try:
            self._callbacks.submit(ended.set_result, None)
        except RuntimeError:  # the group was left, and its threads ended; somebody may still wait
            ended.set_result(None)

    def _outcome(self, _: torch.futures.Future[None]) -> list[torch.Tensor]:
        self._parts.wait()
        self._await_event()
        # Whoever hears of a future does not say on which stream the result will be used.
        for copy in self._stored:
            copy.wait()
        return self.result()

    def _after_end(self) -> None:
        self._await_event()
        self._order_copies()

    def _await_event(self) -> None:
        if self._event is not None:
            self._event.wait()

    def _order_copies(self) -> None:
        for copy in self._stored:
            copy.precede()
