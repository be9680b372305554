"""Tasks of one kind: submitted, finished on the pool's thread, and asked for when a descriptor says
so.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from lmcache.v1.platform import create_event_notifier

Result = TypeVar("Result")

_log = logging.getLogger(__name__)


class Tasks(Generic[Result]):
    """See above.

    Args:
        submit: gives the pool work.
        numbers: of tasks, of all kinds.
        failed: makes the result of a task that could not be done, of how many objects it had.
    """

    def __init__(
        self,
        submit: Callable[[Coroutine[Any, Any, Result]], Future[Result]],
        numbers: itertools.count[int],
        failed: Callable[[int], Result],
    ) -> None:
        self._submit = submit
        self._numbers = numbers
        self._failed = failed
        self._lock = threading.Lock()
        self._running: dict[int, Future[Result]] = {}
        self._results: dict[int, Result] = {}
        self._notifier = create_event_notifier()
        self._closed = False

    @property
    def descriptor(self) -> int:
        """Readable when a task has finished."""
        descriptor: int = self._notifier.fileno()
        return descriptor

    def start(self, work: Coroutine[Any, Any, Result], objects: int) -> int:
        """The number of a new task that does ``work`` with so many objects."""
        number = next(self._numbers)
        future = self._submit(work)
        with self._lock:
            self._running[number] = future
        future.add_done_callback(lambda done: self._finish(number, done, objects))
        return number

    def take(self, number: int) -> Result | None:
        """The result of a task, once; ``None`` before it has finished."""
        with self._lock:
            return self._results.pop(number, None)

    def take_all(self) -> dict[int, Result]:
        """All results that nobody has taken, by task."""
        with self._lock:
            results, self._results = self._results, {}
        return results

    def close(self) -> None:
        """Cancel what runs, and wait until nothing reads or writes its objects any more."""
        with self._lock:
            self._closed = True
            running = list(self._running.values())
        for future in running:
            future.cancel()
        # Their thread has been told of the ends before it is of this.
        self._submit(self._nothing()).result()
        self._notifier.close()

    async def _nothing(self) -> Result:
        return self._failed(0)

    def _finish(self, number: int, done: Future[Result], objects: int) -> None:
        if done.cancelled():
            result = self._failed(objects)
        elif error := done.exception():
            _log.warning("a task of %d objects failed", objects, exc_info=error)
            result = self._failed(objects)
        else:
            result = done.result()
        with self._lock:
            self._running.pop(number, None)
            if not self._closed:
                self._results[number] = result
                self._notifier.notify()
