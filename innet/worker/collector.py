"""The thread that hands finished operations to callbacks and event loops."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable
from typing import Protocol

from innet._native import _core

_log = logging.getLogger(__name__)


class Delivery(Protocol):
    """Tells of the ends of a node's operations."""

    def deliver(self, operation: int, callback: Callable[[int, str], None]) -> None:
        """Call ``callback(status, detail)`` when ``operation`` ends."""

    def cancel(self, operation: int) -> None:
        """Give the operation up."""


class QuietDelivery(Delivery, Protocol):
    """The same, and of some operations only when it tells of others anyway: waking a thread up
    takes longer than many an operation."""

    def deliver_quietly(self, operation: int, callback: Callable[[int, str], None]) -> None:
        """Call ``callback(status, detail)`` with that of an operation that ends at the same time
        or later."""

    def hasten(self, operation: int) -> None:
        """From now on, tell of an operation that was to be delivered quietly as of all others; one
        that waits for others to begin does so now."""


class Collector:
    """Waits for operations of a node; started with the first one handed over.

    A node has one, shared by all groups: whoever collects gets the ends of every group's work.
    """

    def __init__(self, node: _core.Node) -> None:
        self._node = node
        self._queue = _core.CompletionQueue(node)
        self._lock = threading.Lock()
        self._callbacks: dict[int, Callable[[int, str], None]] = {}
        self._thread: threading.Thread | None = None
        self._stop_read = self._stop_write = -1

    def wait(self, operation: int, timeout_s: float) -> tuple[int, str] | None:
        """Status and detail of an operation that was not handed over."""
        return self._node.wait(operation, timeout_s)

    def done(self, operation: int) -> bool:
        """Whether the operation has ended."""
        return self._node.done(operation)

    def cancel(self, operation: int) -> None:
        """Give the operation up."""
        self._node.cancel(operation)

    def discard(self, operation: int) -> None:
        """Forget an operation that was not handed over: nobody will ask for its end.

        Takes no lock of Python's: a finalizer may call it wherever the garbage collector runs.
        """
        self._node.discard(operation)

    def deliver(self, operation: int, callback: Callable[[int, str], None]) -> None:
        """Call ``callback(status, detail)`` on the collector's thread when ``operation`` ends."""
        with self._lock:
            self._callbacks[operation] = callback
            if self._thread is None:
                self._stop_read, self._stop_write = os.pipe2(os.O_CLOEXEC)
                self._thread = threading.Thread(
                    target=self._run,
                    args=(self._stop_read,),
                    name="innet-collector",
                    daemon=True,
                )
                self._thread.start()
        self._queue.add(operation)

    def close(self) -> None:
        """Deliver what has ended and stop the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
            # Who hands an operation over right now starts another thread, with a pipe of its own.
            stop_read, stop_write = self._stop_read, self._stop_write
        if thread is None:
            return
        os.write(stop_write, b"x")
        if thread is not threading.current_thread():
            thread.join()
        os.close(stop_read)
        os.close(stop_write)

    def _run(self, stop_read: int) -> None:
        poller = select.poll()
        poller.register(self._queue.fd, select.POLLIN)
        poller.register(stop_read, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poller.poll()}
            self._deliver_ended()
            if stop_read in ready:
                return

    def _deliver_ended(self) -> None:
        for operation, status, detail in self._queue.take():
            with self._lock:
                callback = self._callbacks.pop(operation, None)
            if callback is None:
                continue
            try:
                callback(status, detail)
            except Exception:  # one user's callback must not end everybody's
                _log.exception("a callback of an operation failed")
