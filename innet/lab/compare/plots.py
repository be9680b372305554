"""The plots of a report, as SVG that takes its colours from the page.

matplotlib only has fixed colours. It draws in placeholder colours, which the finished SVG replaces
by CSS variables (``--ink``, ``--grid``, ``--series-0``, ...), so that one drawing is readable on
light and on dark pages.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from innet.lab.compare.measurement import Comparison, Measurement, SimulatedRun
from innet.quantities import rounded_duration, rounded_rate, rounded_size

SERIES_COLOURS = 8
"""Number of colours; further methods reuse them in the same order."""

_QUARTERS: Final = (1.0, 1.25, 1.5, 1.75)
"""Numbers on an axis between two powers of two."""

_INK = "#0a0a01"
_GRID = "#0a0a02"
LOST = "#0a0a03"
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "innet",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
}
WIDTH_IN = 11.0
_BESIDE: Final = "outside right upper"
"""Legends are outside of the axes, where they hide no line."""
_MARKERS = "osD^vPXh"


@dataclass(frozen=True)
class Drawing:
    """A plot under its heading.

    Attributes:
        note: how to read it, if that needs words.
        svg: ``None`` where the comparison has nothing to draw.
    """

    heading: str
    note: str
    svg: str | None


def drawings(comparison: Comparison) -> list[Drawing]:
    """The plots of a report."""
    drawn = _of_a_replay(comparison) if comparison.is_replay else _of_sizes(comparison)
    return [drawing for drawing in drawn if drawing.svg is not None]


def _of_sizes(comparison: Comparison) -> Iterator[Drawing]:
    one = f"one {comparison.operation} of {rounded_size(comparison.sizes_bytes[-1])}"
    yield _times("Time", comparison)
    if _has_sizes(comparison):
        yield Drawing("Distance from the bound", "", plot_ratios(comparison))
        yield Drawing("Bandwidth", "", plot_bandwidths(comparison))
    yield Drawing(
        "Over time",
        f"Each operation where it ended, with the first seed{_event_lines(comparison)}.",
        plot_timeline(comparison),
    )
    yield Drawing(
        "Queues and drops",
        f"The deepest queue of each method during {one}; "
        "the red line counts dropped packets (right axis).",
        plot_queues(comparison),
    )
    yield Drawing(
        "Bytes on the links",
        f"M is the size; {one}, every link in both directions, headers included.",
        plot_links(comparison),
    )


def _of_a_replay(comparison: Comparison) -> Iterator[Drawing]:
    yield Drawing(
        "Where blocks were found",
        "Shares of all blocks of all requests; what is found nowhere is computed.",
        plot_blocks(comparison),
    )
    yield Drawing(
        "Bytes on the busiest link",
        "Of a request, headers included.",
        plot_busiest_links(comparison),
    )
    yield _times("Time to the first token", comparison)
    yield Drawing(
        "Over time",
        f"Each request where its first token came, with the first seed{_event_lines(comparison)}.",
        plot_timeline(comparison),
    )


def _event_lines(comparison: Comparison) -> str:
    happened = any(m.simulated and m.simulated.events for m in comparison.largest)
    return "; vertical lines are events" if happened else ""


def _duration_label(time_s: float, _place: float) -> str:
    return rounded_duration(time_s)


def _times(heading: str, comparison: Comparison) -> Drawing:
    plot = plot_times if _has_sizes(comparison) else plot_one_size
    return Drawing(heading, "", plot(comparison))


def _has_sizes(comparison: Comparison) -> bool:
    """Whether any method was measured at more than one size."""
    return any(len(comparison.of_method(method)) > 1 for method in comparison.methods)


def plot_one_size(comparison: Comparison) -> str:
    """The methods at their only size: bars for medians, dots for samples, marks for bounds."""
    rows = comparison.measurements
    with new_figure(WIDTH_IN, 0.9 + 0.42 * len(rows)) as figure:
        axes = figure.subplots()
        for place, row in enumerate(rows):
            colour = method_colour(comparison.methods.index(row.method))
            axes.barh(place, row.median_s, height=0.62, color=colour, alpha=0.85)
            axes.plot(
                row.samples_s, [place] * len(row.samples_s), ls="", marker="o", markersize=3,
                color=_INK, alpha=0.5,
            )  # fmt: skip
            if row.least_s is not None:
                axes.vlines(row.least_s, place - 0.42, place + 0.42, color=LOST, linewidth=2)
        axes.set_yticks(range(len(rows)), [_title_of(row) for row in rows])
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.grid(axis="y", visible=False)
        axes.xaxis.set_major_formatter(_duration_label)
        bound = "" if all(row.least_s is None for row in rows) else ", red: bound"
        axes.set_title(f"time of {_a(comparison.operation)} (bar: median, dots: all{bound})")
        return svg_of(figure)


def _title_of(row: Measurement) -> str:
    samples = len(row.samples_s)
    return f"{row.title} ({samples} {'sample' if samples == 1 else 'samples'})"


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def plot_times(comparison: Comparison) -> str:
    """Median time over size, both logarithmic; a method's bound as a dashed line."""
    with new_figure(WIDTH_IN, 4.6) as figure:
        axes = figure.subplots()
        for number, method in enumerate(comparison.methods):
            rows = comparison.of_method(method)
            sizes = [m.size_bytes for m in rows]
            _line(axes, number, sizes, [m.median_s for m in rows], rows[0].title)
            axes.fill_between(
                sizes, [m.p10_s for m in rows], [m.p90_s for m in rows],
                color=method_colour(number), alpha=0.1, linewidth=0,
            )  # fmt: skip
            bounds = [(m.size_bytes, m.least_s) for m in rows if m.least_s is not None]
            if bounds:
                axes.plot(
                    *zip(*bounds, strict=True),
                    color=method_colour(number),
                    dashes=(3, 3),
                    linewidth=1,
                )
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(_duration_label)
        _size_axis(axes, comparison)
        bound = "" if all(m.least_s is None for m in comparison.measurements) else ", dashes: bound"
        what = f"time of {_a(comparison.operation)}"
        axes.set_title(f"{what} (line: median, band: p10 to p90{bound})")
        figure.legend(loc=_BESIDE)
        return svg_of(figure)


def plot_ratios(comparison: Comparison) -> str | None:
    """Median time by bound, over size; ``None`` when nothing has a bound."""
    measured = [m for m in comparison.measurements if m.ratio_to_bound is not None]
    if not measured:
        return None
    with new_figure(WIDTH_IN, 3.4) as figure:
        axes = figure.subplots()
        for number, method in enumerate(comparison.methods):
            points = [
                (m.size_bytes, m.ratio_to_bound)
                for m in comparison.of_method(method)
                if m.ratio_to_bound is not None
            ]
            if points:
                sizes, ratios = zip(*points, strict=True)
                _line(axes, number, sizes, ratios, comparison.of_method(method)[0].title)
        axes.axhline(1.0, color=_INK, linewidth=1)
        axes.set_yscale("log", base=2)
        lowest, highest = axes.get_ylim()
        if highest < 4 * lowest:  # powers of two alone would leave one number on the axis
            axes.yaxis.set_major_locator(LogLocator(base=2, subs=_QUARTERS))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        sizes_bytes = sorted({m.size_bytes for m in measured})
        _size_axis(axes, comparison, sizes_bytes)
        axes.set_title("time by bound (1 is the best that the links allow this method)")
        figure.legend(loc=_BESIDE)
        return svg_of(figure)


def plot_bandwidths(comparison: Comparison) -> str:
    """Size by time, over size."""
    with new_figure(WIDTH_IN, 3.4) as figure:
        axes = figure.subplots()
        for number, method in enumerate(comparison.methods):
            rows = comparison.of_method(method)
            rates_bps = [8 * m.bandwidth_bytes_per_s for m in rows]
            _line(axes, number, [m.size_bytes for m in rows], rates_bps, rows[0].title)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: rounded_rate(value)))
        _size_axis(axes, comparison)
        axes.set_title("algorithm bandwidth (size by median time)")
        figure.legend(loc=_BESIDE)
        return svg_of(figure)


def plot_timeline(comparison: Comparison) -> str | None:
    """Durations of operations over virtual time, with events; ``None`` outside simulations."""
    rows = [m for m in comparison.largest if m.simulated is not None and m.simulated.spans_s]
    if not rows:
        return None
    with new_figure(WIDTH_IN, 0.6 + 1.3 * len(rows)) as figure:
        panels = figure.subplots(len(rows), 1, squeeze=False)[:, 0]
        for axes, row in zip(panels, rows, strict=True):
            assert row.simulated is not None
            _timeline_panel(axes, row, row.simulated, comparison.methods.index(row.method))
        return svg_of(figure)


def _timeline_panel(axes: Axes, row: Measurement, run: SimulatedRun, number: int) -> None:
    ends_s = [ended_s for _, ended_s in run.spans_s]
    axes.vlines(
        ends_s, 0, [ended_s - begun_s for begun_s, ended_s in run.spans_s],
        color=method_colour(number), linewidth=2,
    )  # fmt: skip
    first_s = run.spans_s[0][0]
    for event in run.events:
        if first_s <= event.time_s <= ends_s[-1]:
            axes.axvline(event.time_s, color=LOST, linewidth=0.8, alpha=0.7)
    axes.plot(
        ends_s, [e - b for b, e in run.spans_s], color=method_colour(number), marker="o", ls=""
    )
    axes.set_ylim(bottom=0)
    axes.set_xlim(first_s, ends_s[-1] + 0.02 * (ends_s[-1] - first_s))
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_formatter(_duration_label)
    axes.xaxis.set_major_formatter(_duration_label)
    axes.set_title(row.title)


def plot_queues(comparison: Comparison) -> str | None:
    """The deepest queue of each method over one allreduce of the largest size, and its drops."""
    rows = [m for m in comparison.largest if m.deepest_queue is not None]
    if not rows:
        return None
    deepest_bytes = max(m.deepest_queue_bytes for m in rows)
    most_drops = max((m.deepest_queue.drops[-1] for m in rows if m.deepest_queue), default=0)
    last_s = max(m.deepest_queue.time_s[-1] for m in rows if m.deepest_queue)
    with new_figure(WIDTH_IN, 0.5 + 1.25 * len(rows)) as figure:
        panels = figure.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0]
        for axes, row in zip(panels, rows, strict=True):
            _queue_panel(axes, row, comparison.methods.index(row.method), most_drops)
            axes.set_ylim(0, 1.08 * deepest_bytes)
            axes.set_yticks(byte_ticks(deepest_bytes))
            axes.set_xlim(0, last_s)
        panels[-1].xaxis.set_major_formatter(_duration_label)
        return svg_of(figure)


def plot_links(comparison: Comparison) -> str | None:
    """Bytes on every directed link for one allreduce of the largest size, in multiples of M."""
    rows = [m for m in comparison.largest if m.links]
    if not rows:
        return None
    names = [str(link) for link in rows[0].links]
    with new_figure(WIDTH_IN, 0.9 + 0.95 * len(rows)) as figure:
        panels = figure.subplots(len(rows), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, row in zip(panels, rows, strict=True):
            multiples = [link.bytes_per_operation / row.size_bytes for link in row.links]
            number = comparison.methods.index(row.method)
            axes.bar(range(len(multiples)), multiples, width=0.72, color=method_colour(number))
            axes.set_title(f"{row.title}: at most {max(multiples):.2f} M on a link")
            axes.yaxis.set_major_locator(MaxNLocator(3))
            axes.grid(axis="x", visible=False)
        if len(names) <= 40:
            panels[-1].set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=8)
        else:
            panels[-1].xaxis.set_major_locator(NullLocator())
            panels[-1].set_xlabel(f"{len(names)} directed links")
        return svg_of(figure)


def _queue_panel(axes: Axes, row: Measurement, number: int, most_drops: int) -> None:
    queue = row.deepest_queue
    assert queue is not None
    axes.fill_between(
        queue.time_s, queue.depth_bytes, color=method_colour(number), alpha=0.8, step="mid"
    )
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: rounded_size(value)))
    drops = queue.drops[-1]
    axes.set_title(
        f"{row.title}: queue {queue.source} → {queue.destination}, "
        f"{drops} {'packet' if drops == 1 else 'packets'} dropped"
    )
    if most_drops:
        twin = axes.twinx()
        twin.plot(queue.time_s, queue.drops, color=LOST, linewidth=1.4)
        twin.set_ylim(0, 1.08 * most_drops)
        twin.yaxis.set_major_locator(MaxNLocator(2, integer=True))
        twin.tick_params(axis="y", colors=LOST)
        twin.grid(visible=False)


def byte_ticks(most_bytes: int) -> list[int]:
    """Zero and two or three powers of two, or their multiples, up to ``most_bytes``."""
    step = 1 << max(0, most_bytes.bit_length() - 2)
    return list(range(0, most_bytes + 1, step))


def _line(axes: Axes, number: int, x: Sequence[float], y: Sequence[float], label: str) -> None:
    marker = _MARKERS[number % len(_MARKERS)]
    axes.plot(x, y, color=method_colour(number), marker=marker, label=label)


def _size_axis(axes: Axes, comparison: Comparison, sizes_bytes: list[int] | None = None) -> None:
    sizes_bytes = sizes_bytes or comparison.sizes_bytes
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes_bytes, [rounded_size(size) for size in sizes_bytes])
    axes.xaxis.set_minor_locator(NullLocator())
    replay = "memory of the cluster for blocks"
    axes.set_xlabel(replay if comparison.is_replay else "size of each rank's tensor")


def method_colour(number: int) -> str:
    """The placeholder of a method's colour."""
    return f"#0a0b{number % SERIES_COLOURS:02d}"


@contextmanager
def new_figure(width_in: float, height_in: float) -> Iterator[Figure]:
    """A figure in the report's style."""
    with mpl.rc_context(_STYLE):
        yield Figure(figsize=(width_in, height_in), layout="constrained")


def svg_of(figure: Figure) -> str:
    """The figure's SVG, with its colours as CSS variables."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for placeholder, name in ((_INK, "ink"), (_GRID, "grid"), (LOST, "lost")):
        text = text.replace(placeholder, f"var(--{name})")
    return re.sub(r"#0a0b(\d\d)", lambda found: f"var(--series-{int(found[1])})", text)


_PLACES: Final = ("local", "switches", "homes", "computed")


def plot_blocks(comparison: Comparison) -> str:
    """A bar for each memory and design: the shares of blocks by the place where they were found."""
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
        figure.legend(loc=_BESIDE)
        return svg_of(figure)


def plot_busiest_links(comparison: Comparison) -> str | None:
    """Bytes per request on the busiest link; ``None`` without link traffic."""
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
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: rounded_size(value)))
        return svg_of(figure)


def _rows(comparison: Comparison) -> list[Measurement]:
    return sorted(comparison.measurements, key=lambda row: row.size_bytes)


def _label(comparison: Comparison, row: Measurement) -> str:
    several = len(comparison.sizes_bytes) > 1
    return f"{rounded_size(row.size_bytes)}, {row.method}" if several else row.method


def _share(row: Measurement, place: str) -> float:
    assert row.blocks is not None
    count: int = getattr(row.blocks, place)
    return count / max(row.blocks.asked, 1)
