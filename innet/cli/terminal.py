"""Views that fit a terminal: tables that shorten names and omit columns, and a scrolling view."""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable, Sequence
from typing import Self

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

_ELLIPSIS = "…"
_MIN_NAME_WIDTH = 8
_MOST_LISTED = 8
_ANY_WIDTH = 10_000


def shortened(name: str, width: int) -> str:
    """A name in at most ``width`` characters, with what distinguishes it: beginning and end.

    >>> shortened("training-host-amsterdam-0001", 13), shortened("h0", 13)
    ('traini…m-0001', 'h0')
    """
    if len(name) <= width:
        return name
    end = max(0, width - 1) // 2
    return name[: max(0, width - 1 - end)] + _ELLIPSIS + name[len(name) - end :]


def listed(names: Sequence[str]) -> str:
    """Names with commas; of many the first ones, and how many there are."""
    if len(names) <= _MOST_LISTED:
        return ", ".join(names)
    return f"{', '.join(names[: _MOST_LISTED - 1])}, … ({len(names)})"


def short_size(size_bytes: int) -> str:
    """Rounded, unlike :func:`innet.quantities.format_size`, which must be exact."""
    if size_bytes < 10 << 10:
        return f"{size_bytes} B"
    if size_bytes < 10 << 20:
        return f"{size_bytes / 2**10:.0f} KiB"
    if size_bytes < 10_000 << 20:
        return f"{size_bytes / 2**20:.0f} MiB"
    return f"{size_bytes / 2**30:.0f} GiB"


class NameCell:
    """Names in a cell, joined by an arrow, each cut in the middle where the column is narrow."""

    def __init__(self, *names: str, style: str = "") -> None:
        self._names = names
        self._style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        spare = options.max_width - (len(self._names) - 1)
        widths = dict.fromkeys(range(len(self._names)), 0)
        # The shortest first: what they do not need is left to the others.
        by_length = sorted(widths, key=lambda place: len(self._names[place]))
        for left, place in zip(range(len(by_length), 0, -1), by_length, strict=True):
            widths[place] = min(len(self._names[place]), max(1, spare // left))
            spare -= widths[place]
        shown = [shortened(name, widths[place]) for place, name in enumerate(self._names)]
        yield Text("→".join(shown), style=self._style, no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        full = sum(map(len, self._names)) + len(self._names) - 1
        return Measurement(min(full, _MIN_NAME_WIDTH * len(self._names)), full)


class FittedTable:
    """A table of numbers that stay whole, and of names and texts that take what is left.

    Columns of ``less_important`` are left out, the first one first, and then those of numbers, the
    last one first, until the rest fits.
    """

    def __init__(self, title: str, *columns: str, less_important: Sequence[str] = ()) -> None:
        self._title = title
        self._columns = columns
        self._less_important = less_important
        self._rows: list[Sequence[RenderableType]] = []

    @property
    def row_count(self) -> int:
        """How many rows it has."""
        return len(self._rows)

    def add_row(self, *cells: RenderableType) -> None:
        """Cells of the first columns; a :class:`str` is never broken."""
        self._rows.append(cells)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        left_out: list[str] = []
        table = self._table(left_out)
        for column in (*self._less_important, *self._columns_of_numbers()):
            if _width_of(table, console, options) <= options.max_width:
                break
            left_out.append(column)
            table = self._table(left_out)
        yield table
        if left_out:
            what = ", ".join(name.replace("\n", " ") for name in left_out)
            yield Text(f"(a wider terminal shows: {what})", style="dim", no_wrap=True)

    def _columns_of_numbers(self) -> list[str]:
        """The other columns whose cells are never broken, the last one first."""
        return [
            name
            for place, name in reversed(list(enumerate(self._columns)))
            if name not in self._less_important
            and all(isinstance(row[place], str) for row in self._rows if place < len(row))
        ]

    def _table(self, left_out: Sequence[str]) -> Table:
        table = Table(
            title=self._title or None,
            title_justify="left",
            box=None,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        kept = [place for place, name in enumerate(self._columns) if name not in left_out]
        for place in kept:
            cells = [row[place] for row in self._rows if place < len(row)]
            texts = [cell for cell in cells if isinstance(cell, str)]
            is_fixed = len(texts) == len(cells)
            widest = max(Text.from_markup(text).cell_len for text in (self._columns[place], *texts))
            table.add_column(
                self._columns[place], no_wrap=is_fixed, min_width=widest if is_fixed else None
            )
        for row in self._rows:
            table.add_row(*(row[place] for place in kept if place < len(row)))
        return table


def _width_of(table: Table, console: Console, options: ConsoleOptions) -> int:
    return Measurement.get(console, options.update(max_width=_ANY_WIDTH), table).minimum


_REFRESHES_PER_S = 4
_KEYS: dict[bytes, int | str] = {
    b"\x1b[A": -1, b"k": -1, b"\x1b[B": 1, b"j": 1,
    b"\x1b[5~": "page up", b"b": "page up", b"\x1b[6~": "page down", b" ": "page down",
    b"\x1b[H": "start", b"g": "start", b"\x1b[F": "end", b"G": "end",
}  # fmt: skip
"""Bytes that terminals send for arrows, Page Up and Down, Home and End; and keys of ``less``."""


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
