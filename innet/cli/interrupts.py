"""Ctrl-C before and after a command has something to clean up."""

from __future__ import annotations

import atexit
import os
import signal
from types import FrameType
from typing import Final

EXIT_INTERRUPTED: Final = 130
"""128 and the number of SIGINT, as shells have it."""


def exit_at_interrupt() -> None:
    """Let Ctrl-C end this process at once, while modules are imported.

    An exception from a signal handler can get lost in the import system.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


def raise_at_interrupt() -> None:
    """Let Ctrl-C raise :class:`KeyboardInterrupt` from now on."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def end_interrupted() -> None:
    """After a Ctrl-C: let the next end this process at once, and none change its status.

    Python gives its handlers back while it shuts down, and a signal would then be the status. So
    signals are ignored from the first hook at exit on.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def _exit(_signum: int, _frame: FrameType | None) -> None:
    os._exit(EXIT_INTERRUPTED)
