"""Delivers the completions of a node's operations, and reports objects that other nodes request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from innet._native import _core

_STOP, _ADDED = b"s", b"a"
"""Signals to the thread: to stop, and that an operation was added after a failure."""

Callback = Callable[[int, str], None]
"""Receives status and detail of an operation that has ended."""

_log = logging.getLogger(__name__)


class Delivery(Protocol):
    """Delivers the completions of a node's operations."""

    def deliver(self, operation: int, callback: Callback) -> None:
        """Call ``callback(status, detail)`` when ``operation`` ends."""

    def cancel(self, operation: int) -> None:
        """Give the operation up."""


class BatchedDelivery(Delivery, Protocol):
    """Also delivers low-priority completions, batched with the next wake-up.

    A wake-up costs more than most operations.
    """

    def deliver_batched(self, operation: int, callback: Callback) -> None:
        """Call ``callback`` together with that of an operation that ends at the same time or
        later."""

    def flush(self, operation: int) -> None:
        """Deliver a batched operation like all others from now on; one that waits for others to
        start does so now."""


class _PendingCallbacks:
    """The callbacks that a collector still has to call, by operation. Thread-safe.

    A collector that has failed calls :meth:`fail`. From then on every operation ends with that
    error, so that no caller waits for ever.
    """

    def __init__(self, node: _core.Node) -> None:
        self._node = node
        self._lock = threading.Lock()
        self._callbacks: dict[int, Callback] = {}
        self._failure: str | None = None
        self._exit: KeyboardInterrupt | SystemExit | None = None

    def take_exit(self) -> KeyboardInterrupt | SystemExit | None:
        """The first exception since the last call by which a callback ends the process."""
        taken, self._exit = self._exit, None
        return taken

    @property
    def failed(self) -> bool:
        """Whether :meth:`fail` was called."""
        return self._failure is not None

    def add(self, operation: int, callback: Callback) -> bool:
        """Keep ``callback`` until ``operation`` ends; false: call :meth:`fail_pending`."""
        with self._lock:
            self._callbacks[operation] = callback
        return self._failure is None

    def clear(self) -> None:
        """Drop all."""
        with self._lock:
            self._callbacks.clear()

    def end(self, operation: int, status: int, detail: str) -> None:
        """Call the callback of ``operation``; errors of the callback are logged."""
        with self._lock:
            callback = self._callbacks.pop(operation, None)
        try:
            if callback is not None:
                callback(status, detail)
        except BaseException as error:  # one user's callback must not end everybody's
            _log.exception("a callback of an operation failed")
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                self._exit = self._exit or error

    def fail(self, error: BaseException) -> None:
        """End all operations, now and later, with the ``error`` of the collector."""
        _log.critical("no completion can be delivered any more", exc_info=error)
        with self._lock:
            self._failure = (
                f"the process can receive no results any more ({type(error).__name__}: {error}); "
                "restart it"
            )
        self.fail_pending()

    def fail_pending(self) -> None:
        """End the operations that were added after the failure."""
        assert self._failure is not None
        while True:
            with self._lock:
                if not self._callbacks:
                    return
                operation = next(iter(self._callbacks))
            with contextlib.suppress(Exception):  # a stopped node has cancelled it
                self._node.cancel(operation)
            self.end(operation, _core.STATUS_ABORTED, self._failure)


class Collector:
    """Calls back on its own thread, which starts with the first operation.

    A node has one, shared by all groups.
    """

    def __init__(self, node: _core.Node) -> None:
        self._node = node
        self._queue = _core.CompletionQueue(node)
        self._callbacks = _PendingCallbacks(node)
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
        """Drop the completion of an operation that has no waiter.

        Takes no lock of Python: a finalizer may call it wherever the garbage collector runs.
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
        """Deliver the ended operations, and stop the thread."""
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


class LoopCollector:
    """Calls back in an event loop, without a thread in between; its methods are called there."""

    def __init__(self, node: _core.Node) -> None:
        """The loop is the running one.

        Raises:
            RuntimeError: no loop runs, or no file descriptor is left.
        """
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._queue = _core.CompletionQueue(node)
        self._callbacks = _PendingCallbacks(node)
        self._loop.add_reader(self._queue.fd, self._deliver_ended)

    def deliver(self, operation: int, callback: Callback) -> None:
        """Call ``callback(status, detail)`` when ``operation`` ends.

        If the collector has failed, it ends the operation with the error.
        """
        if self._add(operation, callback):
            self._queue.add(operation)

    def deliver_batched(self, operation: int, callback: Callback) -> None:
        """Call ``callback`` together with that of an operation that ends at the same time or
        later."""
        if self._add(operation, callback):
            self._queue.add_batched(operation)

    def flush(self, operation: int) -> None:
        """Deliver a batched operation like all others from now on; one that waits for others to
        start does so now."""
        self._queue.flush(operation)

    def cancel(self, operation: int) -> None:
        """Give the operation up."""
        self._node.cancel(operation)

    def close(self) -> None:
        """Stop calling back."""
        self._loop.remove_reader(self._queue.fd)
        self._callbacks.clear()

    def _add(self, operation: int, callback: Callback) -> bool:
        """Whether to wait for the operation; otherwise the collector has failed."""
        is_working = self._callbacks.add(operation, callback)
        if not is_working:
            self._loop.call_soon(self._callbacks.fail_pending)
        return is_working

    def _deliver_ended(self) -> None:
        try:
            ended = self._queue.take()
        except BaseException as error:
            self._loop.remove_reader(self._queue.fd)
            self._callbacks.fail(error)
            return
        for end in ended:
            self._callbacks.end(*end)
        if (exits := self._callbacks.take_exit()) is not None:
            raise exits


AskedObject = tuple[str, _core.KeptObject | list[int | None] | None]
"""The name of a requested object, and what the node has done about it on its own: nothing; it keeps
the object; or it has carried out a request, whose fetches ended with these statuses."""

OnAsked = Callable[[Sequence[AskedObject]], None]
"""Receives requested objects in the order of the requests; it must not block."""


@dataclass(frozen=True, slots=True)
class _Listener:
    on_asked: OnAsked
    delivery: Delivery


class AskedObjects:
    """Reports to each listener the requested objects under its prefix.

    A node has one, because it reports each request once.
    """

    def __init__(self, node: _core.NodeHandle) -> None:
        """Nobody listens yet."""
        self._node = node
        self._lock = threading.RLock()  # a simulated operation may end as soon as it begins
        self._listeners: dict[str, _Listener] = {}
        self._watch: int | None = None

    def listen(self, prefix: str, on_asked: OnAsked, delivery: Delivery) -> None:
        """Report objects under ``prefix`` to ``on_asked``, in place of the listener before.

        Where several listen, it may be called wherever the ``delivery`` of any of them calls back.
        """
        with self._lock:
            self._listeners[prefix] = _Listener(on_asked, delivery)
            if self._watch is None:
                self._begin()

    def ignore(self, prefix: str) -> None:
        """Stop reporting objects under ``prefix``.

        Raises:
            RuntimeError: the node has stopped.
        """
        with self._lock:
            self._listeners.pop(prefix, None)
            if self._watch is not None:
                # The watch may use the delivery of the listener that leaves.
                self._node.cancel(self._watch)
                self._watch = None
                if self._listeners:
                    self._begin()

    def tell(self) -> None:
        """Report the requests that the node has received so far.

        Raises:
            RuntimeError: the node has stopped.
        """
        with self._lock:  # waits for another thread that is reporting
            self._tell(self._node.take_requested_objects())

    def _begin(self) -> None:
        self._watch = watch = self._node.watch_objects()
        delivery = next(iter(self._listeners.values())).delivery
        delivery.deliver(watch, partial(self._on_end, watch))

    def _on_end(self, watch: int, status: int, _detail: str) -> None:
        with self._lock:
            if watch != self._watch:
                return
            self._watch = None
            if status != _core.STATUS_DONE:  # the node is gone
                return
            asked = self._node.take_requested_objects()
            self._begin()
            self._tell(asked)

    def _tell(self, asked: Sequence[AskedObject]) -> None:
        if not asked:
            return
        for prefix, listener in tuple(self._listeners.items()):
            below = f"{prefix}/"
            if theirs := [one for one in asked if one[0].startswith(below)]:
                listener.on_asked(theirs)
