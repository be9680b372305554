"""Starts operations in the order of the calls, also those that cannot start at once."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch

from innet.torch_backend.work import CollectiveWork, Copy, Part, Pending, Together

_CALLBACK_THREADS = 16
"""Futures whose callbacks may wait for other operations at once; threads start when needed."""


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of the network, as part of one of PyTorch's.

    Attributes:
        submit: starts it.
        finish: puts the result where the caller wants it, as far as the network has not.
        ready: returns when what ``submit`` needs is there; ``None`` when it is there already.
    """

    submit: Callable[[], Pending]
    finish: Callable[[], None] | None = None
    ready: Callable[[], None] | None = None


def submit_all(steps: Sequence[Step]) -> Together:
    """Start steps that are ready, one after the other."""
    return Together([Part(step.submit(), step.finish) for step in steps])


class Launcher:
    """The order of one group's operations, which must be the same on all ranks.

    An operation starts in the caller's thread. One that has to wait for something first (the copy
    of a tensor from a device, or what another operation brings) starts in a thread of its own, and
    what is called after it starts after it.
    """

    def __init__(self) -> None:
        self.callbacks = ThreadPoolExecutor(_CALLBACK_THREADS, "innet-callbacks")
        self._thread = ThreadPoolExecutor(1, "innet-launcher")
        self._order = threading.Lock()
        self._deferred = 0
        self._unended: set[_Deferred] = set()
        self._batch: list[CollectiveWork] | None = None

    def start(
        self,
        steps: Sequence[Step],
        result: Sequence[torch.Tensor],
        stored: Sequence[Copy] = (),
        source_of: Callable[[], int] | None = None,
    ) -> CollectiveWork:
        """Start the steps one after the other; the work ends when all have ended."""
        with self._order:
            if self._deferred == 0 and all(step.ready is None for step in steps):
                parts = submit_all(steps).parts
            else:
                parts = self._defer(steps)
        work = CollectiveWork(parts, result, self.callbacks, source_of, stored)
        if self._batch is not None:
            self._batch.append(work)
        return work

    def start_batch(self) -> None:
        """From now on, remember what is started."""
        self._batch = []

    def end_batch(self) -> CollectiveWork:
        """The work that ends with everything started since :meth:`start_batch`."""
        works, self._batch = self._batch or [], None
        return CollectiveWork.together(works, self.callbacks)

    def close(self) -> None:
        """Wait for the threads: one that still ran C++ code at exit would abort the process.

        The communicator is closed before, so what has not started yet fails instead of starting.
        What a thread still waits for to start more is given up: it would wait in vain.
        """
        with self._order:
            unended = list(self._unended)
        for pending in unended:
            pending.cancel()
        self._thread.shutdown(wait=True)
        if not threading.current_thread().name.startswith("innet-callbacks"):
            self.callbacks.shutdown(wait=True)

    def _defer(self, steps: Sequence[Step]) -> Sequence[Part]:
        deferred = [_Deferred() for _ in steps]
        parts = [Part(pending, step.finish) for pending, step in zip(deferred, steps, strict=True)]
        self._deferred += 1
        self._unended.update(deferred)
        self._thread.submit(self._launch, steps, deferred)
        return parts

    def _launch(self, steps: Sequence[Step], deferred: Sequence[_Deferred]) -> None:
        for step, pending in zip(steps, deferred, strict=True):
            try:
                if step.ready is not None:
                    step.ready()
                pending.begin(step.submit())
            except Exception as problem:
                # What follows depends on what failed.
                for rest in deferred[deferred.index(pending) :]:
                    rest.fail(problem)
                break
        with self._order:
            self._deferred -= 1
            self._unended.difference_update(deferred)


class _Deferred:
    """An operation that has not started yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: Pending | None = None
        self._cancelled = False
        self._ended: concurrent.futures.Future[None] = concurrent.futures.Future()

    def begin(self, pending: Pending) -> None:
        with self._lock:
            self._started = pending
            cancelled = self._cancelled
        if cancelled:
            pending.cancel()
        pending.add_done_callback(self._end)

    def fail(self, problem: Exception) -> None:
        self._ended.set_exception(problem)

    def wait(self, timeout_s: float | None = None) -> Any:
        return self._ended.result(timeout_s)

    def done(self) -> bool:
        return self._ended.done()

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            started = self._started
        if started is not None:
            started.cancel()

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._ended.add_done_callback(lambda _: callback(self))

    def _end(self, pending: Pending) -> None:
        try:
            pending.wait(0)
        except Exception as problem:
            self.fail(problem)
        else:
            self._ended.set_result(None)
