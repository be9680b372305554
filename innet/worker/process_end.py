"""The end of a worker's process: hooks before it, and whether its program failed."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from types import FrameType

from innet.errors import DeadlineExceeded, RankFailed

_lock = threading.Lock()
_hooks: list[Callable[[], None]] = []


def before_close(hook: Callable[[], None]) -> None:
    """Run ``hook`` before the process's worker closes (communicators leave their groups)."""
    with _lock:
        _hooks.append(hook)


def no_more_before_close(hook: Callable[[], None]) -> None:
    """Remove a hook of :func:`before_close`: what it ends has ended."""
    with _lock, contextlib.suppress(ValueError):
        _hooks.remove(hook)


def take_hooks() -> list[Callable[[], None]]:
    """Remove all hooks and return them."""
    with _lock:
        hooks = list(_hooks)
        _hooks.clear()
        return hooks


def forget_after_fork() -> None:
    """Drop the hooks and the lock, which are the parent's."""
    global _lock
    _lock = threading.Lock()
    _hooks.clear()


class ProgramEnd:
    """Determines, while the interpreter shuts down, how the program ended.

    Python passes a ``SystemExit`` to no hook and does not keep it. So ``sys.exit`` is wrapped to
    learn its status, and the outermost frame of the program shows whether an exception left it: its
    last instruction is then no return. The status of ``raise SystemExit(...)`` stays unknown, and
    such a program counts as ended well.
    """

    def __init__(self) -> None:
        self._outermost = _outermost_frame()
        self._status: object = None
        exit_program = sys.exit

        def exit_noticed(status: object = None, /) -> None:
            self._status = status
            exit_program(status)  # type: ignore[arg-type]

        sys.exit = exit_noticed  # type: ignore[assignment]

    def failure(self) -> str | None:
        """Why the program failed, for the other ranks; ``None`` when it ended well."""
        if _returned(self._outermost):
            return None
        error = getattr(sys, "last_value", None)
        if isinstance(error, BaseException):
            return describe(error)
        if self._status in (None, 0):
            return None
        if isinstance(self._status, int):
            return f"ended by sys.exit({int(self._status)})"
        return f"ended by sys.exit: {self._status}"


def describe(error: BaseException) -> str:
    """An exception that ends the program, for the other ranks."""
    # A rank that waited in vain for another one has not failed itself.
    what = "gave up" if type(error) is DeadlineExceeded else f"failed with {type(error).__name__}"
    return f"{what}: {error}".rstrip(": ")


def is_of_another(error: BaseException) -> bool:
    """Whether an exception that ends the program follows from another rank's end or absence."""
    follows: BaseException | None = error
    while follows is not None and not isinstance(follows, (RankFailed, DeadlineExceeded)):
        follows = follows.__cause__ or follows.__context__
    return follows is not None


def _outermost_frame() -> FrameType:
    main = threading.main_thread().ident
    frame = sys._current_frames()[main or 0]
    while frame.f_back is not None:
        frame = frame.f_back
    return frame


def _returned(frame: FrameType) -> bool:
    import dis  # at the program's end, and not at its start

    return dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN")
