"""A full-screen live view that scrolls where it is longer than the terminal."""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable
from typing import Self

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

_REFRESHES_PER_S = 4
_KEYS: dict[bytes, int | str] = {
    b"\x1b[A": -1, b"k": -1, b"\x1b[B": 1, b"j": 1,
    b"\x1b[5~": "page up", b"b": "page up", b"\x1b[6~": "page down", b" ": "page down",
    b"\x1b[H": "start", b"g": "start", b"\x1b[F": "end", b"G": "end",
}  # fmt: skip
"""What terminals send for arrows, Page Up, Page Down, Home and End; and the keys of ``less``."""


class Scroller:
    """The visible part of some lines.

    A renderable: shows what ``get_renderable`` returns, from the line on that the user chose, and
    below it which lines these are if there are more.
    """

    def __init__(self, get_renderable: Callable[[], RenderableType]) -> None:
        self._get_renderable = get_renderable
        self._first = 0
        self._lines = 0
        self._height = 1

    def on_key(self, key: bytes) -> None:
        """Move as one key says; other keys do nothing."""
        last = max(0, self._lines - self._height)
        move = _KEYS.get(key, 0)
        if isinstance(move, str):
            targets = {
                "page up": self._first - self._height,
                "page down": self._first + self._height,
                "start": 0,
                "end": last,
            }
            target = targets[move]
        else:
            target = self._first + move
        self._first = min(max(0, target), last)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._get_renderable(), options.update(height=None), pad=False)
        self._lines = len(lines)
        height = options.height or console.height
        fits = len(lines) <= height
        self._height = height if fits else height - 1  # one line shows the position
        self._first = min(self._first, max(0, len(lines) - self._height))
        shown = lines[self._first : self._first + self._height]
        for line in shown:
            yield from line
            yield Segment.line()
        if not fits:
            place = f"lines {self._first + 1} to {self._first + len(shown)} of {len(lines)}"
            yield Text(
                f"{place}; arrows and Page Down scroll, Ctrl-C ends", style="reverse", end=""
            )


class ScrolledScreen:
    """Shows a renderable on the whole terminal, several times a second, inside its context."""

    def __init__(self, console: Console, get_renderable: Callable[[], RenderableType]) -> None:
        self._scroller = Scroller(get_renderable)
        self._live = Live(
            console=console,
            screen=True,
            refresh_per_second=_REFRESHES_PER_S,
            vertical_overflow="crop",
            get_renderable=lambda: self._scroller,
        )
        self._keys: _Keyboard | None = None

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        if sys.stdin.isatty():
            self._keys = _Keyboard(sys.stdin.fileno(), self._on_key)
        return self

    def __exit__(self, *_: object) -> None:
        if self._keys is not None:
            self._keys.close()
        self._live.stop()

    def _on_key(self, key: bytes) -> None:
        self._scroller.on_key(key)
        self._live.refresh()


class _Keyboard:
    """Reads keys as they are pressed; Ctrl-C stays a signal."""

    def __init__(self, fd: int, on_key: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._on_key = on_key
        self._before = termios.tcgetattr(fd)
        self._stop_reader, self._stop_writer = os.pipe()
        tty.setcbreak(fd, termios.TCSANOW)
        self._thread = threading.Thread(target=self._read, name="keys", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Restore the terminal."""
        os.write(self._stop_writer, b".")
        self._thread.join()
        os.close(self._stop_reader)
        os.close(self._stop_writer)
        termios.tcsetattr(self._fd, termios.TCSANOW, self._before)

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._fd, self._stop_reader], [], [])
            if self._stop_reader in ready:
                return
            key = os.read(self._fd, 16)
            if not key:
                return
            self._on_key(key)
