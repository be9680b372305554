"""Starts the operations of a group in the order of the calls."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from innet.collectives import Communicator, Work
from innet.collectives.work import Promise
from innet.torch_backend.work import CollectiveWork, CompositeWork, Copy, Part

_CALLBACK_THREADS = 16
"""Number of futures whose callbacks can wait for other operations at the same time."""


Fail = Callable[[BaseException], None]
"""Sends an error to the other ranks in place of this rank's contribution."""


class CalledOff(Exception):
    """No rank starts the remaining steps: all ranks know ``cause``."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of the network, as part of one of PyTorch's.

    Attributes:
        submit: starts it.
        finish: copies the result to the caller's tensor; ``None`` if the network writes it there.
        ready: waits for the input of ``submit``; ``None`` if the input is there.
        fail: called in place of ``submit``; ``None`` for a collective, which the communicator
            fails.
        synchronising: as for :meth:`Communicator.collective`.
    """

    submit: Callable[[], Work[Any]]
    finish: Callable[[], None] | None = None
    ready: Callable[[], None] | None = None
    fail: Fail | None = None
    synchronising: bool = True


class _CurrentCall(threading.local):
    """The call that a thread makes.

    Attributes:
        what: its name in messages.
        fail: fails it on the other ranks; ``None`` for a collective, which the communicator fails.
        synchronising: as for :meth:`Communicator.collective`.
        is_started: whether its steps, or their failures, have their place in the order.
        begun: number of calls that the thread made, with this one.
    """

    what = "a call"
    fail: Fail | None = None
    synchronising = True
    is_started = False
    begun = 0


_current = _CurrentCall()


def calls_begun() -> int:
    """Number of calls that this thread has made on groups of innet."""
    return _current.begun


def is_told(error: BaseException) -> bool:
    """Whether the call that raised ``error`` failed on the other ranks too."""
    return hasattr(error, _TOLD)


_TOLD = "_innet_is_told"
"""An attribute of errors."""


class Launcher:
    """Keeps the order of one group's operations, which must be the same on all ranks.

    An operation starts in the caller's thread. An operation that must first wait, for a copy from a
    device or for another operation, starts in the launcher's thread, and later operations start
    after it.

    Each call uses its place in the order, even if it fails: a call that fails here before it
    started fails on the other ranks too.
    """

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator
        self.callbacks = ThreadPoolExecutor(_CALLBACK_THREADS, "innet-callbacks")
        self._thread = ThreadPoolExecutor(1, "innet-launcher")
        self._order = threading.Lock()
        self._deferred = 0
        self._unended: set[Promise[Any]] = set()
        self._batch: list[CollectiveWork] | None = None

    @property
    def current(self) -> _CurrentCall:
        """The call that this thread makes."""
        return _current

    @contextmanager
    def call(
        self, what: str, fail: Fail | None = None, *, synchronising: bool = True
    ) -> Iterator[None]:
        """A block that starts one operation, or fails it on every rank.

        Args:
            what: its name in messages.
            fail: fails it; by default it is a collective.
            synchronising: as for :meth:`Communicator.collective`.
        """
        _current.what, _current.is_started = what, False
        _current.fail, _current.synchronising = fail, synchronising
        _current.begun += 1
        try:
            yield
        except BaseException as error:
            if not _current.is_started:
                self.fail(what, error, fail, synchronising=synchronising)
            setattr(error, _TOLD, True)
            raise

    def fail(
        self,
        what: str,
        error: BaseException,
        fail: Fail | None = None,
        *,
        synchronising: bool = True,
    ) -> None:
        """Fail a call on every rank, in its place among others; arguments as of :meth:`call`."""
        if fail is None:
            fail = functools.partial(self._communicator.fail, what, synchronising=synchronising)
        self._in_order(functools.partial(fail, error))
        setattr(error, _TOLD, True)

    def leave_step(self, what: str) -> None:
        """See :meth:`Communicator.leave_step`."""
        self._in_order(functools.partial(self._communicator.leave_step, what))

    def start(
        self,
        steps: Sequence[Step],
        result: Sequence[torch.Tensor],
        stored: Sequence[Copy] = (),
        source_of: Callable[[], int] | None = None,
    ) -> CollectiveWork:
        """Start the steps one after the other; the work ends when all have ended.

        Called within :meth:`call`.
        """
        with self._order:
            _current.is_started = True
            if self._deferred == 0 and all(step.ready is None for step in steps):
                parts = self.submit(_current.what, steps).parts
            else:
                parts = self._defer(steps)
        work = CollectiveWork(parts, result, self.callbacks, source_of, stored)
        if self._batch is not None:
            self._batch.append(work)
        return work

    def run_at_once(self, call: Callable[[], bool]) -> bool:
        """Make a call that is over when it returns, if all that was called before has started.

        Called within :meth:`call`.

        Args:
            call: fails itself on the other ranks; ``False`` if it did nothing.
        """
        with self._order:
            if self._deferred or self._batch is not None:
                return False
            _current.is_started = True
        _current.is_started = call()
        return _current.is_started

    def submit(self, what: str, steps: Sequence[Step]) -> CompositeWork:
        """Start steps one after the other, each when it is ready; not to be called elsewhere.

        After an error of one, those behind it fail on every rank.
        """
        parts = [
            Part(self._submit_first(what, steps[place:]), step.finish)
            for place, step in enumerate(steps)
        ]
        return CompositeWork(parts)

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
        for promise in unended:
            promise.cancel()
        self._thread.shutdown(wait=True)
        if not threading.current_thread().name.startswith("innet-callbacks"):
            self.callbacks.shutdown(wait=True)

    def _defer(self, steps: Sequence[Step]) -> Sequence[Part]:
        deferred: list[Promise[Any]] = [Promise() for _ in steps]
        parts = [Part(promise, step.finish) for promise, step in zip(deferred, steps, strict=True)]
        self._deferred += 1
        self._unended.update(deferred)
        self._thread.submit(self._launch, _current.what, steps, deferred)
        return parts

    def _launch(self, what: str, steps: Sequence[Step], deferred: Sequence[Promise[Any]]) -> None:
        for place, promise in enumerate(deferred):
            try:
                promise.end_with(self._submit_first(what, steps[place:]))
            except Exception as problem:
                cause = problem.cause if isinstance(problem, CalledOff) else problem
                # The remaining steps depend on the failed one.
                for rest in deferred[place:]:
                    rest.fail(cause)
                break
        self._no_longer_deferred(deferred)

    def _submit_first(self, what: str, steps: Sequence[Step]) -> Work[Any]:
        """Start the first of the steps that are left of a call; after an error, all of them fail.

        Raises:
            CalledOff: no rank starts any of them.
        """
        first, unstarted = steps[0], steps
        try:
            if first.ready is not None:
                first.ready()
            unstarted = steps[1:]
            if first.fail is not None:
                return first.submit()
            with self._communicator.collective(what, synchronising=first.synchronising):
                return first.submit()
        except BaseException as error:
            is_called_off = isinstance(error, CalledOff) and len(unstarted) == len(steps)
            for step in () if is_called_off else unstarted:
                if step.fail is not None:
                    step.fail(error)
                else:
                    self._communicator.fail(what, error, synchronising=step.synchronising)
            raise

    def _in_order(self, fail: Callable[[], None]) -> None:
        """Run ``fail`` after what was called before has started."""

        def run() -> None:
            fail()
            self._no_longer_deferred(())

        with self._order:
            if self._deferred == 0:
                fail()
            else:
                self._deferred += 1
                self._thread.submit(run)

    def _no_longer_deferred(self, deferred: Sequence[Promise[Any]]) -> None:
        with self._order:
            self._deferred -= 1
            self._unended.difference_update(deferred)
