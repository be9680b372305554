"""Where the lines that node processes print go: to the console, or to a file for each."""

from __future__ import annotations

import os
import signal
import zlib
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

OutputSink = Callable[[str, str], None]
"""Takes a process's label, such as ``h3``, and one line without its end."""

LAUNCHER_LABEL = "innet"
"""Of lines that no node has printed: the launcher's own."""

_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red")


class ConsoleOutput:
    """Prints every line behind the label of its process, coloured when on a terminal.

    When nobody reads the output any more (``innet run ... | head``), the program gets SIGTERM, as
    a pipe's writer gets SIGPIPE: the run then ends in order.

    Example::

        [h3] epoch 1: loss 0.48
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(soft_wrap=True, highlight=False)
        self._is_read = True

    def __call__(self, label: str, line: str) -> None:
        if not self._is_read:
            return
        try:
            self._print(label, line)
        except OSError:
            self._is_read = False
            _point_to_nowhere(self._console.file.fileno())
            signal.raise_signal(signal.SIGTERM)

    def _print(self, label: str, line: str) -> None:
        if self._console.is_terminal:
            colour = _COLOURS[zlib.crc32(label.encode()) % len(_COLOURS)]
            text = Text.assemble((f"[{label}] ", colour), Text.from_ansi(line))
            self._console.print(text, soft_wrap=True)
        else:  # without rich's layout, which takes 0.1 ms for a line
            self._console.file.write(f"[{label}] {line}\n")
            self._console.file.flush()


def _point_to_nowhere(fd: int) -> None:
    """What is still in the stream's buffer must not fail again when the interpreter ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, fd)
    os.close(null)


class FileOutput:
    """Appends the lines of each process to ``<directory>/<label>.log``."""

    def __init__(self, directory: Path) -> None:
        """Nothing is made before the first line comes."""
        self._directory = directory

    def __call__(self, label: str, line: str) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        with (self._directory / f"{label}.log").open("a", encoding="utf-8") as file:
            file.write(line + "\n")
