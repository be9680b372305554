"""Operations under way, as PyTorch, its compiler and its profilers see them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self, TypeVar

import torch
from torch._C import _distributed_c10d as c10d
from torch._C._autograd import _profiler_enabled as profiler_enabled
from torch._C._autograd import _record_function_with_args_enter as enter
from torch._C._dynamo.eval_frame import (
    _FrameAction,
    _FrameExecStrategy,
    set_code_exec_strategy,
)
from torch.distributed import Work

from innet.collectives import Work as InnetWork
from innet.torch_backend.options import BACKEND_NAME

__all__ = [
    "CollectiveWork",
    "CompositeWork",
    "Copy",
    "Part",
    "ProfilerEvent",
    "not_compiled",
    "profiler_enabled",
]

_SKIP = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
_Function = TypeVar("_Function")


def not_compiled(function: _Function) -> _Function:
    """Decorator: ``torch.compile`` compiles neither the function nor what it calls.

    PyTorch's C++ calls a process group in the middle of compiled code: DistributedDataParallel does
    so when it rebuilds its buckets. PyTorch 2.13 would compile the methods of the group there, and
    refuses to. Unlike ``torch.compiler.disable`` this adds nothing to a call, and does not import
    the compiler.
    """
    code: Any = function
    set_code_exec_strategy(code.__code__, _SKIP)
    return function


class ProfilerEvent:
    """An operation under way, as ``torch.profiler`` and ``torch.autograd.profiler`` record it.

    It is called as Gloo's are, ``innet:all_reduce`` for ``gloo:all_reduce``, or as
    ``torch.distributed.record_comm`` says. With ``record_shapes`` it has those of the input.
    """

    def __init__(self, operation: str, inputs: Sequence[torch.Tensor]) -> None:
        """Begin it, in the thread that has the profiler on."""
        title = c10d._get_comm_profiling_name() or f"{BACKEND_NAME}:{operation}"
        self._thread = threading.get_ident()
        self._ended = threading.Event()
        # The profiler belongs to this thread; the callback of a future carries it to another.
        self._end: torch.futures.Future[None] = torch.futures.Future()
        torch.ops.profiler._call_end_callbacks_on_jit_fut._RecordFunction(
            enter(title, *inputs), self._end
        )

    def end(self) -> None:
        """The operation has ended, well or not."""
        if threading.get_ident() == self._thread:
            # An event that ends in the thread where it began would count as that thread's work.
            threading.Thread(target=self._set_end, name="innet-profiler").start()
        else:
            self._set_end()

    def wait(self) -> None:
        """Wait until the end is recorded: the profiler may be turned off next."""
        self._ended.wait()

    def _set_end(self) -> None:
        self._end.set_result(None)
        self._ended.set()


_NO_TIMEOUT = timedelta(0)


class Part:
    """One operation of the network, and what finishes it in this process, once."""

    __slots__ = ("_finish", "_is_settled", "_lock", "error", "work")

    def __init__(self, work: InnetWork[Any], finish: Callable[[], None] | None) -> None:
        self.work = work
        self.error: BaseException | None = None
        self._finish = finish
        self._lock = threading.Lock()
        self._is_settled = False

    def settle(self, timeout_s: float | None) -> bool:
        """Wait for the operation, then finish, once; sets ``error``.

        Returns whether it ended within ``timeout_s``. The thread that waits finishes: a copy takes
        too long for a thread that delivers completions.
        """
        error: BaseException | None = None
        try:
            self.work.wait(timeout_s)
        except TimeoutError:
            if not self.work.done():
                return False
            error = self.work.exception()  # it may have ended just after the wait
        except Exception as problem:
            error = problem
        with self._lock:
            if self._is_settled:
                return True
            if error is None and self._finish is not None:
                try:
                    self._finish()
                except Exception as problem:
                    error = problem
            self.error = error
            self._finish = None
            self._is_settled = True
        return True


class CompositeWork(InnetWork[None]):
    """Operations that end together."""

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__()
        self.parts = parts

    def done(self) -> bool:
        """Whether :meth:`wait` would return at once."""
        return all(part.work.done() for part in self.parts)

    def cancel(self) -> None:
        """Give all up."""
        for part in self.parts:
            part.work.cancel()

    def add_done_callback(self, callback: Callable[[InnetWork[None]], None]) -> None:
        """Call ``callback`` when all have ended; the thread that waits finishes them."""
        self._after(0, callback)

    def _after(self, place: int, callback: Callable[[InnetWork[None]], None]) -> None:
        if place == len(self.parts):
            callback(self)
        else:
            self.parts[place].work.add_done_callback(lambda _: self._after(place + 1, callback))

    def _subscribe(self) -> None:
        def settle(_ended: InnetWork[None]) -> None:
            self._await_end(None)

        self._after(0, settle)

    def _await_end(self, timeout_s: float | None) -> bool:
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        error = None
        # Wait for all, also after a failure: they may still write to the caller's tensors.
        for part in self.parts:
            if not part.settle(None if end_s is None else max(0.0, end_s - time.monotonic())):
                return False
            error = error or part.error
        if self._claim_end():
            self._settle(error, None)
        return super()._await_end(None)


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy under way between a device and the host.

    Attributes:
        wait: blocks until the copy is done.
        precede: makes later work on the caller's stream wait for the copy.
    """

    wait: Callable[[], None]
    precede: Callable[[], None]


class CollectiveWork(Work):
    """One operation: ``async_op=True`` returns it, DistributedDataParallel waits for it.

    A ``torch.futures.Future`` is not enough: PyTorch's work around a future swallows errors in
    ``wait()``.
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
            parts: its operations of the network.
            result: the tensors that hold the result at the end.
            callbacks: runs the callbacks of futures. They may wait for other operations, so no
                thread that completes operations may run them.
            source_of: the sender of a received message.
            stored: copies of the result to a device; parts add to it when they finish.
        """
        super().__init__()
        self._parts = CompositeWork(parts)
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
        self._parts.wait(timeout.total_seconds() if timeout > _NO_TIMEOUT else None)
        self._after_end()
        return True

    def synchronize(self) -> None:
        """Wait like :meth:`wait`, and let the current stream wait for copies to a device."""
        self.wait()

    @not_compiled
    def is_completed(self) -> bool:
        """Whether :meth:`wait` would return at once."""
        if not self._parts.done():
            return False
        self._parts.exception()
        return True

    def is_success(self) -> bool:
        """Whether the operation has ended without an error."""
        return self.exception() is None and self.is_completed()

    def exception(self) -> BaseException | None:
        """The error of an operation that has ended, or ``None``."""
        return self._parts.exception() if self._parts.done() else None

    def result(self) -> list[torch.Tensor]:
        """The tensors with the result; valid once the operation has ended."""
        return list(self._result)

    def source_rank(self) -> int:
        """The sender of a received message; -1 for other operations, and before it arrives."""
        return -1 if self._source_of is None else self._source_of()

    _source_rank = source_rank

    def cancel(self) -> None:
        """Cancel the operation here; unless it has ended, :meth:`wait` raises ``Cancelled``."""
        self._parts.cancel()

    def ends(self, event: ProfilerEvent) -> None:
        """End ``event`` when the network is done, before :meth:`wait` returns."""
        self._event = event
        self._parts.add_done_callback(lambda _: event.end())

    @not_compiled
    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """A future of :meth:`result`; its callbacks may call and wait for other operations."""
        with self._lock:
            if self._future is not None:
                return self._future
            ended: torch.futures.Future[None] = torch.futures.Future()
            # DistributedDataParallel crashes on a future whose exception was set from Python, and
            # takes an exception that a callback raises.
            future = self._future = ended.then(self._outcome)
        if self._parts.done():
            # The future has no callbacks yet, so this thread may end it: a caller that has waited
            # for the work reads the value at once.
            ended.set_result(None)
        else:
            self._parts.add_done_callback(lambda _: self._hand_over(ended))
        return future

    def _hand_over(self, ended: torch.futures.Future[None]) -> None:
        try:
            self._callbacks.submit(ended.set_result, None)
        except RuntimeError:  # the group was left and its threads ended; a thread may still wait
            ended.set_result(None)

    def _outcome(self, _: torch.futures.Future[None]) -> list[torch.Tensor]:
        self._parts.wait()
        self._await_event()
        # A future does not know on which stream its callback uses the result.
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
