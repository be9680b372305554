"""Where the lines that node processes print go: to the console, or to a file for each."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

OutputSink = Callable[[str, str], None]
"""Takes a process's label, such as ``h3``, and one line without its end."""

_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red")


class ConsoleOutput:
    """Prints every line behind the label of its process, coloured when on a terminal.

    Example::

        [h3] epoch 1: loss 0.48
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(soft_wrap=True, highlight=False)

    def __call__(self, label: str, line: str) -> None:
        colour = _COLOURS[zlib.crc32(label.encode()) % len(_COLOURS)]
        self._console.print(Text.assemble((f"[{label}] ", colour), Text.from_ansi(line)))


class FileOutput:
    """Appends the lines of each process to ``<directory>/<label>.log``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def __call__(self, label: str, line: str) -> None:
        with (self._directory / f"{label}.log").open("a", encoding="utf-8") as file:
            file.write(line + "\n")
