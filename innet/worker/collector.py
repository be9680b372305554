"""The thread that hands finished operations to callbacks and event loops."""

from __future__ import annotations

import os
import select
import threading
from typing import Protocol

from innet._native import _core
from innet.worker.pending_callbacks import Callback, PendingCallbacks

_STOP, _ADDED = b"s", b"a"
"""Signals to the thread: to stop, and that an operation was added after a failure."""


class Delivery(Protocol):
    """Tells of the ends of a node's operations."""

    def deliver(self, operation: int, callback: Callback) -> None:
        """Call ``callback(status, detail)`` when ``operation`` ends."""

    def cancel(self, operation: int) -> None:
        """Give the operation up."""


class QuietDelivery(Delivery, Protocol):
    """The same, and of some operations only when it tells of others anyway: waking a thread up
    takes longer than many an operation."""

    def deliver_quietly(self, operation: int, callback: Callback) -> None:
        """Call ``callback(status, detail)`` with that of an operation that ends at the same time
        or later."""

    def hasten(self, operation: int) -> None:
        """From now on, tell of an operation that was to be delivered quietly as of all others; one
        that waits for others to begin does so now."""


class Collector:
    """Calls back from a thread of its own, started with the first operation handed over.

    A node has one, shared by all groups.
    """

    def __init__(self, node: _core.Node) -> None:
        self._node = node
        self._queue = _core.CompletionQueue(node)
        self._callbacks = PendingCallbacks(node)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._signals_read = self._signals_write = -1

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

    def deliver(self, operation: int, callback: Callback) -> None:
        """Call ``callback(status, detail)`` on the collector's thread when ``operation`` ends.

        If the collector has failed, it ends the operation with the error.
        """
        self._callbacks.add(operation, callback)
        with self._lock:
            if self._thread is None:
                self._start()
            if self._callbacks.failed:
                os.write(self._signals_write, _ADDED)
                return
        self._queue.add(operation)

    def close(self) -> None:
        """Deliver what has ended and stop the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
            # An operation that is handed over right now starts another thread, with another pipe.
            signals_read, signals_write = self._signals_read, self._signals_write
        if thread is None:
            return
        os.write(signals_write, _STOP)
        if thread is not threading.current_thread():
            thread.join()
        os.close(signals_read)
        os.close(signals_write)

    def _start(self) -> None:
        self._signals_read, self._signals_write = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(
            target=self._run,
            args=(self._signals_read,),
            name="innet-collector",
            daemon=True,
        )
        self._thread.start()

    def _run(self, signals_read: int) -> None:
        if not self._callbacks.failed:
            try:
                self._deliver_until_stopped(signals_read)
                return
            except BaseException as error:
                self._callbacks.fail(error)
        while os.read(signals_read, 1) != _STOP:
            self._callbacks.fail_pending()

    def _deliver_until_stopped(self, signals_read: int) -> None:
        poller = select.poll()
        poller.register(self._queue.fd, select.POLLIN)
        poller.register(signals_read, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poller.poll()}
            for ended in self._queue.take():
                self._callbacks.end(*ended)
            if signals_read in ready:
                return
