"""Tables that fit the terminal: they cut names in the middle and omit some columns."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
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

    Columns of ``less_important`` are left out, the first one first, until the rest fits.
    """

    def __init__(self, title: str, *columns: str, less_important: Sequence[str] = ()) -> None:
        self._title = title
        self._columns = columns
        self._less_important = less_important
        self._rows: list[Sequence[RenderableType]] = []

    def add_row(self, *cells: RenderableType) -> None:
        """Cells of the first columns; a :class:`str` is never broken."""
        self._rows.append(cells)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        left_out: list[str] = []
        table = self._table(left_out)
        for column in self._less_important:
            if _width_of(table, console, options) <= options.max_width:
                break
            left_out.append(column)
            table = self._table(left_out)
        yield table
        if left_out:
            what = ", ".join(name.replace("\n", " ") for name in left_out)
            yield Text(f"(a wider terminal shows: {what})", style="dim", no_wrap=True)

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
