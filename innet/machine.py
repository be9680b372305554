"""This machine: the name of its processor, and where innet caches what it has found out."""

from __future__ import annotations

import os
import platform
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
        OSError: there is none, as its process has ended.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096).decode(errors="replace")
    finally:
        os.close(descriptor)


def cache_folder() -> Path | None:
    """The folder ``innet`` in the user's cache; ``None`` without a home."""
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    except RuntimeError:
        return None
    return cache / "innet"
