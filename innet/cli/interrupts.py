"""Ctrl-C before and after a command has something to clean up."""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

EXIT_INTERRUPTED: Final = 130
"""128 and the number of SIGINT, as shells have it."""


class _Exit:
    """A signal handler that ends this process at once, with a last line on stderr."""

    def __init__(self, line: str = "") -> None:
        self._line = line

    def __call__(self, _signum: int, _frame: FrameType | None) -> None:
        if os.isatty(2):
            os.write(2, b"\x1b[?25h")  # the cursor, which a progress bar hides
        os.write(2, f"{self._line}\n".encode() if self._line else b"")
        os._exit(EXIT_INTERRUPTED)


def exit_at_interrupt(line: str = "") -> None:
    """Let Ctrl-C end this process at once, while there is nothing to clean up.

    An exception from a signal handler can get lost in the import system.

    Args:
        line: to print then.
    """
    if _is_ours():
        signal.signal(signal.SIGINT, _Exit(line))


def raise_at_interrupt() -> None:
    """Let Ctrl-C raise :class:`KeyboardInterrupt` from now on."""
    if isinstance(signal.getsignal(signal.SIGINT), _Exit):
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def one_interrupt(line: str) -> Iterator[None]:
    """Let the first Ctrl-C raise :class:`KeyboardInterrupt`, and the next end the process at once.

    Args:
        line: to print at the second one.
    """

    def raise_first(_signum: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, _Exit(line))
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if _is_ours():
        signal.signal(signal.SIGINT, raise_first)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is raise_first:
            signal.signal(signal.SIGINT, before)


def end_interrupted() -> None:
    """After a Ctrl-C: let the next end this process at once, and none change its status.

    Python gives its handlers back while it shuts down, and a signal would then be the status. So
    signals are ignored from the first hook at exit on.
    """
    if _is_ours():
        signal.signal(signal.SIGINT, _Exit())
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def _is_ours() -> bool:
    """Whether no program around this one handles the signal."""
    handler = signal.getsignal(signal.SIGINT)
    return handler is signal.default_int_handler or isinstance(handler, _Exit)
