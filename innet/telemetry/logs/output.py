"""Sinks of the lines that node processes print: the console, JSON lines or files."""

from __future__ import annotations

import json
import os
import signal
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

from innet.printable import one_line, printable, printed_lines
from innet.telemetry.logs import json_line

OutputSink = Callable[[str, str], None]
"""Takes a process's label, such as ``h3``, and one line without its line feed."""

LAUNCHER_LABEL = "innet"
"""Label of the launcher's own lines."""

_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red")


class ConsoleOutput:
    """Prints every line behind the label of its process, coloured when on a terminal.

    When the reader of the output has ended (``innet run ... | head``), the program gets SIGTERM, as
    a pipe's writer gets SIGPIPE, so that the run ends in order.

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
        lines = [one_line(line)] if label == LAUNCHER_LABEL else printed_lines(line)
        if self._console.is_terminal:
            colour = _COLOURS[zlib.crc32(label.encode()) % len(_COLOURS)]
            for each in lines:
                text = Text.assemble((f"[{label}] ", colour), Text.from_ansi(each))
                self._console.print(text, soft_wrap=True)
        else:  # without rich's layout, which takes 0.1 ms for a line
            self._console.file.write("".join(f"[{label}] {each}\n" for each in lines))
            self._console.file.flush()


def _point_to_nowhere(fd: int) -> None:
    """Redirect to /dev/null, so that flushing the buffer at exit does not fail again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, fd)
    os.close(null)


class FileOutput:
    """Appends the lines of each process to ``<directory>/<label>.log``."""

    def __init__(self, directory: Path) -> None:
        """The directory is created with the first line."""
        self._directory = directory

    def __call__(self, label: str, line: str) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"{label}.log"
        with open(path, "a", encoding="utf-8", opener=_opened_without_links) as file:
            file.write(line + "\n")


def _opened_without_links(path: str, flags: int) -> int:
    """In a shared folder, another user could lead the lines into any file of this one."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


_LOGGER = "output"
_MOST_RECORD_CHARACTERS = 1 << 20
_LAUNCHER = "launcher"


class JsonLinesOutput(ConsoleOutput):
    """Prints every line as a JSON record; lines that are records of their process already stay.

    Example::

        {"time": "...", "level": "info", "logger": "output", "node": "h3", "message": "loss 0.48"}
    """

    def _print(self, label: str, line: str) -> None:
        node = _LAUNCHER if label == LAUNCHER_LABEL else label
        if not _is_record(line, node):
            line = json_line(time.time(), "info", _LOGGER, line, node=node)
        self._console.file.write(f"{printable(line)}\n")
        self._console.file.flush()


def _is_record(line: str, node: str) -> bool:
    """Whether a line is a record that names ``node``, once, and no other process."""
    if not line.startswith('{"time": ') or len(line) > _MOST_RECORD_CHARACTERS or "\n" in line:
        return False
    try:
        pairs: list[tuple[str, object]] = json.loads(line, object_pairs_hook=list)
    except (ValueError, RecursionError):
        return False
    names = [name for name, _ in pairs]
    return "level" in names and [value for name, value in pairs if name == "node"] == [node]
