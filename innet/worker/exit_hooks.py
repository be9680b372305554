"""What is to be done before this process's worker closes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

_lock = threading.Lock()
_hooks: list[Callable[[], None]] = []


def before_close(hook: Callable[[], None]) -> None:
    """Run ``hook`` before the process's worker closes (communicators leave their groups)."""
    with _lock:
        _hooks.append(hook)


def no_more_before_close(hook: Callable[[], None]) -> None:
    """Take back what :func:`before_close` was told: what the hook ends has ended."""
    with _lock, contextlib.suppress(ValueError):
        _hooks.remove(hook)


def take_hooks() -> list[Callable[[], None]]:
    """All hooks, which are forgotten."""
    with _lock:
        hooks = list(_hooks)
        _hooks.clear()
        return hooks


def forget_after_fork() -> None:
    """The hooks are the parent's, and so is whoever held the lock."""
    global _lock
    _lock = threading.Lock()
    _hooks.clear()
