"""The callbacks that a collector still has to call."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable

from innet._native import _core

_log = logging.getLogger(__name__)

Callback = Callable[[int, str], None]


class PendingCallbacks:
    """Callbacks by operation; thread-safe. Each is called once, or dropped.

    A collector that cannot go on calls :meth:`fail`. From then on, every operation ends with the
    error: whoever waits gets an exception instead of waiting for ever.
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

    def add(self, operation: int, callback: Callback) -> None:
        """Keep ``callback`` until ``operation`` ends."""
        with self._lock:
            self._callbacks[operation] = callback

    def clear(self) -> None:
        """Drop all."""
        with self._lock:
            self._callbacks.clear()

    def end(self, operation: int, status: int, detail: str) -> None:
        """Call back that ``operation`` has ended; what the callback raises is logged."""
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
        """The collector cannot go on: end all operations, now and later, with ``error``."""
        _log.critical("no operation's end can be told any more", exc_info=error)
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
            with contextlib.suppress(Exception):  # a node that has stopped has cancelled it
                self._node.cancel(operation)
            self.end(operation, _core.STATUS_ABORTED, self._failure)
