"""Plots of replays of requests: where blocks were found, and what that cost on the links."""

from __future__ import annotations

from typing import Final

from matplotlib.ticker import FuncFormatter

from innet.lab.compare.measurement import Comparison, Measurement
from innet.lab.compare.plots import LOST, WIDTH_IN, byte_ticks, method_colour, new_figure, svg_of
from innet.lab.compare.quantities import format_bytes

_PLACES: Final = ("local", "switches", "homes", "computed")


def plot_blocks(comparison: Comparison) -> str:
    """For each memory and design a bar: the shares of blocks by the place where they were found."""
    rows = _rows(comparison)
    with new_figure(WIDTH_IN, 0.9 + 0.36 * len(rows)) as figure:
        axes = figure.subplots()
        left = [0.0] * len(rows)
        for number, place in enumerate(_PLACES):
            shares = [_share(row, place) for row in rows]
            shown = LOST if place == "computed" else method_colour(number)
            axes.barh(range(len(rows)), shares, left=left, height=0.66, color=shown, label=place)
            left = [begin + share for begin, share in zip(left, shares, strict=True)]
        axes.set_yticks(range(len(rows)), [_label(comparison, row) for row in rows])
        axes.invert_yaxis()
        axes.set_xlim(0, 1)
        axes.grid(axis="y", visible=False)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
        figure.legend(loc="outside right upper")
        return svg_of(figure)


def plot_busiest_links(comparison: Comparison) -> str | None:
    """Bytes of a request on the link that carries most; ``None`` where nothing was carried."""
    rows = [row for row in _rows(comparison) if row.busiest_link is not None]
    if not rows:
        return None
    with new_figure(WIDTH_IN, 0.9 + 0.36 * len(rows)) as figure:
        axes = figure.subplots()
        most_bytes = 0.0
        for place, row in enumerate(rows):
            assert row.busiest_link is not None
            shown = method_colour(comparison.methods.index(row.method))
            carried_bytes = row.busiest_link.bytes_per_operation
            axes.barh(place, carried_bytes, height=0.66, color=shown)
            most_bytes = max(most_bytes, carried_bytes)
        axes.set_xticks(byte_ticks(round(most_bytes)))
        axes.set_yticks(range(len(rows)), [_label(comparison, row) for row in rows])
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.grid(axis="y", visible=False)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_bytes(value)))
        return svg_of(figure)


def _rows(comparison: Comparison) -> list[Measurement]:
    return sorted(comparison.measurements, key=lambda row: row.size_bytes)


def _label(comparison: Comparison, row: Measurement) -> str:
    several = len(comparison.sizes_bytes) > 1
    return f"{format_bytes(row.size_bytes)}, {row.method}" if several else row.title


def _share(row: Measurement, place: str) -> float:
    assert row.blocks is not None
    count: int = getattr(row.blocks, place)
    return count / max(row.blocks.asked, 1)
