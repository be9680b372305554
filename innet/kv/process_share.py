"""Values that the parts of a process share, such as its attachment and its member of a pool."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class ProcessShare(Generic[Key, Value]):
    """A value that the first part of a process opens, and the last one closes. Thread-safe.

    A forked child has no such value: its module calls :meth:`forget_after_fork`.
    """

    def __init__(
        self,
        opened: Callable[..., Value],
        close: Callable[[Value], None],
        conflict: Callable[[Key, Key], Exception],
    ) -> None:
        """
        Args:
            opened: opens the value of a key.
            close: closes it.
            conflict: the error of a part whose key differs, from the open key and its own.
        """
        self._opened = opened
        self._close = close
        self._conflict = conflict
        self._lock = threading.Lock()
        self._open: tuple[Key, Value] | None = None
        self._users = 0

    @property
    def is_open(self) -> bool:
        """Whether a part has entered and not left."""
        with self._lock:
            return self._open is not None

    def enter(self, key: Key, *options: Any) -> Value:
        """The value, opened unless it is; each part that enters leaves once.

        Args:
            key: what to open; all parts give the same.
            options: of opening, used by the first part only.
        """
        with self._lock:
            if self._open is None:
                self._open = key, self._opened(key, *options)
            elif self._open[0] != key:
                raise self._conflict(self._open[0], key)
            self._users += 1
            return self._open[1]

    def leave(self) -> None:
        """End one part's use; the last one closes the value."""
        with self._lock:
            self._users -= 1
            if not self._users and self._open is not None:
                (_, value), self._open = self._open, None
                self._close(value)

    def forget_after_fork(self) -> None:
        """Start without a value: the parent's, and the holder of its lock, are not here."""
        self._lock = threading.Lock()
        self._open, self._users = None, 0
