"""Turns the signals that end a program into the orderly end of asyncio tasks."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import ClassVar

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class TerminationSignals:
    """Cancels a task on the first signal, and shortens its clean-up on the next.

    Python's own SIGTERM ends a program at once, and a second Ctrl-C interrupts the clean-up that
    the first began. With handlers in the event loop, neither leaves processes or files behind.
    Several instances can be installed at once, as for nested networks; each receives the signal.

    Attributes:
        is_program: nothing of the program matters once the clean-up is done. The next signal then
            ends the process at once, with the status that the first one asked for.
    """

    is_program: ClassVar[bool] = False

    _installed: ClassVar[list[TerminationSignals]] = []
    _caught: ClassVar[list[signal.Signals]] = []

    def __init__(self, hurry: Callable[[], None], begin: Callable[[], None] = lambda: None) -> None:
        """``begin`` is called on the first signal, ``hurry`` on each after it."""
        self._begin = begin
        self._hurry = hurry
        self._received: signal.Signals | None = None
        self._task: asyncio.Task[object] | None = None

    @property
    def received(self) -> signal.Signals | None:
        """The first signal that came."""
        return self._received

    def install(self) -> None:
        """Catch the signals on behalf of the current task; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._task = asyncio.current_task()
        if not self._installed:
            self._catch()
        self._installed.append(self)

    def restore(self) -> None:
        """Give the signals back; what arrives from now on ends the program as usual."""
        if self not in self._installed:
            return
        self._installed.remove(self)
        if not self._installed:
            for signum in self._caught:
                asyncio.get_running_loop().remove_signal_handler(signum)
            if self.is_program and self._received is not None:
                _leave_on_next(self._caught, self._received)
            self._caught.clear()

    def raise_received(self) -> None:
        """End the program the way the signal asked for.

        Raises:
            KeyboardInterrupt: SIGINT came.
            SystemExit: another signal came; the code is that of a shell, 128 and its number.
        """
        if self._received is signal.SIGINT:
            raise KeyboardInterrupt
        if self._received is not None:
            raise SystemExit(128 + self._received)

    @classmethod
    def _catch(cls) -> None:
        for signum in _SIGNALS:
            # An ignored signal stays ignored, as nohup and the shell's & ask for.
            if signal.getsignal(signum) != signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(signum, cls._deliver, signum)
                cls._caught.append(signum)

    @classmethod
    def _deliver(cls, signum: signal.Signals) -> None:
        for installed in tuple(cls._installed):
            installed._on_signal(signum)

    def _on_signal(self, signum: signal.Signals) -> None:
        if self._received is None:
            self._received = signum
            self._begin()
            assert self._task is not None
            self._task.cancel()
        else:
            self._hurry()


def _leave_on_next(caught: Sequence[signal.Signals], received: signal.Signals) -> None:
    """End the process at once when one of ``caught`` comes again: it does nothing but end."""

    def leave(_signum: int, _frame: FrameType | None) -> None:
        with suppress(Exception):  # it may have been interrupted in the middle of a print
            sys.stdout.flush()
        os._exit(128 + received)

    def ignore() -> None:
        # Python gives handlers back while it shuts down: a signal would then change the status.
        for signum in ignored:
            signal.signal(signum, signal.SIG_IGN)

    ignored = tuple(caught)
    for signum in ignored:
        signal.signal(signum, leave)
    atexit.register(ignore)
