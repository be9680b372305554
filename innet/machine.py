"""This machine: its processor, its kernel's files, and the priority of its threads."""

from __future__ import annotations

import contextlib
import os
import platform
import threading
from pathlib import Path

_CPU_INFORMATION = Path("/proc/cpuinfo")


def processor_name() -> str:
    """The model of the processor as the kernel calls it, or else its architecture."""
    try:
        lines = _CPU_INFORMATION.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.machine()
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def read_kernel_file(path: str) -> str:
    """The text of a small file below ``/proc``, of at most 4096 bytes.

    Displays read many of them again and again, and :class:`~pathlib.Path` takes thrice as long.

    Raises:
        OSError: the file does not exist, for example because its process has ended.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096).decode(errors="replace")
    finally:
        os.close(descriptor)


_BACKGROUND_NICE = 10


def run_in_background() -> None:
    """Let the calling thread, and those that it starts, give way to other programs.

    It no longer takes a processor from a thread that runs, and gets a tenth of the time of one that
    competes with it.
    """
    with contextlib.suppress(OSError):  # a sandbox may forbid it
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        thread = threading.get_native_id()
        nice = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, max(nice, _BACKGROUND_NICE))
