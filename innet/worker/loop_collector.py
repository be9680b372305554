"""The ends of a node's operations in an event loop, without a thread in between."""

from __future__ import annotations

import asyncio

from innet._native import _core
from innet.worker.pending_callbacks import Callback, PendingCallbacks


class LoopCollector:
    """Calls back in an event loop, in which all its methods are called."""

    def __init__(self, node: _core.Node) -> None:
        """The loop is the running one.

        Raises:
            RuntimeError: no loop runs, or no file descriptor is left.
        """
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._queue = _core.CompletionQueue(node)
        self._callbacks = PendingCallbacks(node)
        self._loop.add_reader(self._queue.fd, self._deliver_ended)

    def deliver(self, operation: int, callback: Callback) -> None:
        """Call ``callback(status, detail)`` when ``operation`` ends.

        If the collector has failed, it ends the operation with the error.
        """
        if self._add(operation, callback):
            self._queue.add(operation)

    def deliver_quietly(self, operation: int, callback: Callback) -> None:
        """Call ``callback(status, detail)`` with that of an operation that ends at the same time
        or later."""
        if self._add(operation, callback):
            self._queue.add_quietly(operation)

    def hasten(self, operation: int) -> None:
        """From now on, tell of an operation that was to be delivered quietly as of all others; one
        that waits for others to begin does so now."""
        self._queue.hasten(operation)

    def cancel(self, operation: int) -> None:
        """Give the operation up."""
        self._node.cancel(operation)

    def close(self) -> None:
        """Call nobody back any more."""
        self._loop.remove_reader(self._queue.fd)
        self._callbacks.clear()

    def _add(self, operation: int, callback: Callback) -> bool:
        """Whether the operation's end is to be waited for; otherwise the collector has failed."""
        self._callbacks.add(operation, callback)
        if self._callbacks.failed:
            self._loop.call_soon(self._callbacks.fail_pending)
        return not self._callbacks.failed

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
