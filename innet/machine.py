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


def cache_folder() -> Path | None:
    """The folder ``innet`` in the user's cache; ``None`` without a home."""
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    except RuntimeError:
        return None
    return cache / "innet"
