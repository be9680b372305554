"""``innet up --detach``: the launcher goes on in the background once it has left the terminal."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType

import typer

_READY = b"ready"


class Background:
    """This process, in a session of its own; whoever started it waits until it is ready."""

    def __init__(self, report_fd: int) -> None:
        self._report_fd = report_fd

    def report_ready(self, log: Path) -> None:
        """Let the starter return; from now on output goes to ``log``."""
        sys.stdout.flush()
        sys.stderr.flush()
        log_fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        for fd in (1, 2):
            os.dup2(log_fd, fd)
        os.close(log_fd)
        os.write(self._report_fd, _READY)
        os.close(self._report_fd)


def enter_background() -> Background:
    """Return in a new process without a terminal. Call it before threads or event loops begin.

    Raises:
        typer.Exit: in the calling process, once the new one is ready (0) or has ended (its code).
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        return Background(writer)
    os.close(writer)
    raise typer.Exit(_wait_until_ready(pid, reader))


def _wait_until_ready(pid: int, reader: int) -> int:
    """Hand Ctrl-C and SIGTERM on meanwhile; the new process is the one with things to clean up."""

    def hand_on(signum: int, _frame: FrameType | None) -> None:
        os.kill(pid, signum)

    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, hand_on)
    with os.fdopen(reader, "rb") as pipe:
        if pipe.read() == _READY:
            return 0
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
