"""Shows a comparison: a table on the terminal with a summary, and an HTML page.

The page is self-contained: it loads no script, font or file.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final
from urllib.parse import quote

from rich.console import Console, Group, RenderableType
from rich.measure import Measurement as RenderedWidth
from rich.table import Table
from rich.text import Text

from innet import extras
from innet.lab.compare.measurement import (
    BlockPlaces,
    Comparison,
    Measurement,
    SimulatedRun,
)
from innet.lab.compare.summary import summary_sentences
from innet.output_files import write_output
from innet.quantities import rounded_duration, rounded_rate, rounded_size

_ABSENT = "-"

WIDE = 150
"""Columns of a terminal that shows all figures of most measurements."""
_ANY_WIDTH = 10_000


def render_table(comparison: Comparison, width: int = WIDE) -> RenderableType:
    """The table of all measurements, what failed, and the summary.

    Args:
        comparison: what to show.
        width: columns of the terminal. Names and figures stay whole: a table that does not fit
            leaves out its least important columns.

    Example::

        console.print(render_table(comparison, console.width))
    """
    title = f"{comparison.workload} on {comparison.topology}, {comparison.mode}: {comparison.links}"
    shown = columns_of(comparison)
    left_out: list[str] = []
    table = _measurements(comparison, shown)
    for column in _LEAST_IMPORTANT_FIRST:
        if _width_of(table) <= width:
            break
        if column in shown:
            shown.remove(column)
            left_out.append(column)
            table = _measurements(comparison, shown)
    parts: list[RenderableType] = [Text(title, style="italic"), table]
    if left_out:
        parts.append(Text(f"(a wider terminal shows: {', '.join(left_out)})", style="dim"))
    parts += [Text(f"• {sentence}") for sentence in summary_sentences(comparison)]
    return Group(*parts)


def _measurements(comparison: Comparison, columns: Sequence[str]) -> Table:
    """A row for each measurement, with these columns."""
    table = Table(header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    for size_bytes in comparison.sizes_bytes:
        table.add_section()
        rows = comparison.at_size(size_bytes)
        fastest_s = min(row.median_s for row in rows)
        for row in rows:
            style = "bold green" if row.median_s == fastest_s else ""
            cells = table_cells(row)
            table.add_row(
                *(cells[name] for name in columns), style=style if row.correct else "bold red"
            )
    return table


def _width_of(table: Table) -> int:
    console = Console(width=_ANY_WIDTH)
    return RenderedWidth.get(console, console.options, table).maximum


def columns_of(comparison: Comparison) -> list[str]:
    """The headings of a comparison's table: keys of :func:`table_cells`."""
    if comparison.is_replay:
        return list(_REPLAY_COLUMNS)
    absent = {"p95"} | ({"cpu", "machine cpu"} if comparison.mode == "sim" else {"slots"})
    if not any(m.blocks for m in comparison.measurements):
        absent |= set(_BLOCK_COLUMNS)
    return [name for name in _COLUMNS if name not in absent]


_BLOCK_COLUMNS = (
    "hits", "one store", "Belady", "ideal", "local", "switches", "homes", "computed", "late",
)  # fmt: skip
_COLUMNS = (
    "size", "method", "median", "p10 to p90", "samples", "p95", "bandwidth", "bound", "ratio",
    "busiest link", "deepest queue", "drops", "resent", "slots", "cpu", "machine cpu",
    *_BLOCK_COLUMNS,
)  # fmt: skip
_LEAST_IMPORTANT_FIRST = (
    "resent", "slots", "p10 to p90", "bandwidth", "cpu", "late", "p95", "switches", "homes",
    "local", "busiest link", "machine cpu", "samples", "deepest queue", "ideal", "Belady",
    "one store", "bound", "drops", "computed",
)  # fmt: skip
_LONG_COLUMNS = ("p10 to p90", "busiest link")
"""Whose cells can have two lines, so that a page of 1280 points shows all columns."""
_REPLAY_COLUMNS = (
    "size", "method", "hits", "one store", "Belady", "ideal", "local", "switches", "homes",
    "computed", "late", "median", "p95", "busiest link", "drops", "resent",
)  # fmt: skip


def table_cells(measurement: Measurement) -> dict[str, str]:
    """One measurement as text, by the headings of its columns."""
    m = measurement
    busiest = m.busiest_link
    cells = (
        rounded_size(m.size_bytes),
        m.method if m.correct else f"{m.method}: WRONG RESULT",
        rounded_duration(m.median_s),
        f"{rounded_duration(m.p10_s)} to {rounded_duration(m.p90_s)}",
        str(len(m.samples_s)),
        rounded_duration(m.p95_s),
        rounded_rate(8 * m.bandwidth_bytes_per_s),
        _ABSENT if m.least_s is None else rounded_duration(m.least_s),
        _ABSENT if m.ratio_to_bound is None else f"{m.ratio_to_bound:.2f}",
        _ABSENT if busiest is None else f"{busiest} {rounded_size(busiest.bytes_per_operation)}",
        rounded_size(m.deepest_queue_bytes),
        str(m.drops),
        str(m.retransmissions),
        _ABSENT if m.simulated is None else str(m.simulated.slots_in_use_max),
        rounded_duration(m.cpu_s),
        _ABSENT if m.machine_cpu_s is None else rounded_duration(m.machine_cpu_s),
        *_block_cells(m.blocks),
    )
    return dict(zip(_COLUMNS, cells, strict=True))


def _block_cells(blocks: BlockPlaces | None) -> tuple[str, ...]:
    if blocks is None:
        return (_ABSENT,) * len(_BLOCK_COLUMNS)
    asked = max(blocks.asked, 1)
    places = (blocks.local, blocks.switches, blocks.homes, blocks.computed)
    shares = [f"{count / asked:.3f}" for count in places]
    references = (
        _ABSENT if rate is None else f"{rate:.3f}"
        for rate in (blocks.one_store_rate, blocks.belady_rate, blocks.ideal_rate)
    )
    return (f"{blocks.hit_rate:.3f}", *references, *shares, str(blocks.late))


# The page.

_MOST_EVENTS = 100
_MOST_RECORDINGS = 20

_BYTES_AND_REPETITIONS: Final = (
    'Bytes on links include headers. "Resent" counts Interests, or TCP segments of a baseline'
)
_NOTE: Final = (
    "Times are those of the rank that took longest. The bound is the time that the busiest link "
    "needs for the payload that the method must send over it, with the latency of its steps where "
    "an allreduce of innet took more than 1.25 times that. Operations up to 64 KiB follow each "
    "other in a row, so their time is not held against the bound. In netns mode the kernel's rate "
    "limit lets a first burst pass at once (1 ms worth, at least 16 KiB; where packets are "
    f"batched, 80 KiB), which small tensors profit from. {_BYTES_AND_REPETITIONS}; "
    '"cpu" is processor time per operation in all workers, and in the switches; "machine cpu" '
    "that of the whole machine, kernel and interrupts included."
)
_NOTE_OF_A_REPLAY: Final = (
    "The size is the memory of all hosts and switches for blocks. Times are those from a request "
    'to its first token. "hits" is the share of blocks that need not be computed; "one store" '
    "is that share for one store with all the memory, which serves one request at a time, "
    '"Belady" if that store knew all requests in advance, which no design exceeds without '
    'overlapping requests; "ideal" for a store with memory for all blocks. "local", "switches", '
    '"homes" and "computed" are shares of blocks by the place where they were found; "late" '
    "counts blocks that missed "
    f"their deadline. {_BYTES_AND_REPETITIONS}."
)

NO_FIGURES: Final = (
    "The report has no figures, because matplotlib is not installed. Install it: "
    f"{extras.install_command('matplotlib')}"
)


def write_report(comparison: Comparison, path: Path, recordings: Sequence[Path] = ()) -> None:
    """Write the HTML page to ``path``; it links to the recordings."""
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = path.parent.absolute()
    links = [Path(os.path.relpath(recording.absolute(), folder)) for recording in recordings]
    write_output(path, render_report(comparison, links))


def render_report(comparison: Comparison, recordings: Sequence[Path] = ()) -> str:
    """The text of the HTML page; ``recordings``: relative to its folder."""
    template = Template(
        files("innet.lab.compare").joinpath("report.html").read_text(encoding="utf-8")
    )
    return template.substitute(
        title=escape(f"{comparison.workload} on {comparison.topology}"),
        about=escape(
            f"{comparison.hosts} hosts, {comparison.switches} "
            f"{'switch' if comparison.switches == 1 else 'switches'}, {comparison.links}; "
            f"mode {comparison.mode}; {comparison.machine.date}"
        ),
        summary="\n".join(f"<li>{escape(line)}</li>" for line in summary_sentences(comparison)),
        figures=_figures(comparison) if comparison.measurements else "",
        events=_events(comparison),
        recordings=_recordings(recordings),
        table=_table(comparison),
        note=escape(_NOTE_OF_A_REPLAY if comparison.is_replay else _NOTE),
        facts=_facts(comparison),
    )


def _figures(comparison: Comparison) -> str:
    if not extras.is_installed("matplotlib"):
        return f'<p class="note">{escape(NO_FIGURES)}</p>'
    # Here because the core does without matplotlib.
    from innet.lab.compare.plots import drawings

    return "\n".join(
        f"<h2>{drawing.heading}</h2>\n"
        + (f'<p class="note">{drawing.note}</p>\n' if drawing.note else "")
        + f"<figure>{drawing.svg}</figure>"
        for drawing in drawings(comparison)
    )


def _recordings(paths: Sequence[Path]) -> str:
    if not paths:
        return ""
    items = "\n".join(
        f'<li><a href="{escape(quote(path.as_posix()))}" download>{escape(path.name)}</a>: '
        f"<code>innet watch {escape(shlex.quote(str(path)))} --web</code></li>"
        for path in paths[:_MOST_RECORDINGS]
    )
    more = len(paths) - _MOST_RECORDINGS
    return (
        '<h2>Recordings</h2>\n<p class="note">What the links carried, for the live view. The '
        "commands work in the folder of this report.</p>\n"
        f"<ul>\n{items}\n</ul>\n" + (f'<p class="note">and {more} more.</p>\n' if more > 0 else "")
    )


def _table(comparison: Comparison) -> str:
    columns = columns_of(comparison)
    rows = ["<tr>" + "".join(f"<th>{column}</th>" for column in columns) + "</tr>"]
    for size_bytes in comparison.sizes_bytes:
        measured = comparison.at_size(size_bytes)
        fastest_s = min(m.median_s for m in measured)
        for number, m in enumerate(measured):
            classes = ["first"] if number == 0 else []
            if not m.correct:
                classes.append("wrong")
            elif m.median_s == fastest_s:
                classes.append("fastest")
            by_column = table_cells(m)
            cells = "".join(_cell(column, by_column[column]) for column in columns)
            rows.append(f'<tr class="{" ".join(classes)}">{cells}</tr>')
    return "\n".join(rows)


def _cell(column: str, text: str) -> str:
    kind = ' class="long"' if column in _LONG_COLUMNS else ""
    return f"<td{kind}>{escape(text)}</td>"


def _facts(comparison: Comparison) -> str:
    facts = {
        "machine": str(comparison.machine),
        "date": comparison.machine.date,
        "measured": ", ".join(comparison.versions.values()),
        "signature": f"{comparison.signature}, on every segment of innet's",
        "repetitions": _repetitions(comparison),
    }
    runs = [m.simulated for m in comparison.measurements if m.simulated is not None]
    if runs:
        facts["seeds"] = ", ".join(str(seed) for seed in sorted({s for r in runs for s in r.seeds}))
        virtual_s, wall_s = (sum(getattr(r, k) for r in runs) for k in ("virtual_s", "wall_s"))
        facts["simulated"] = (
            f"{rounded_duration(virtual_s)} of virtual time in {rounded_duration(wall_s)}, "
            f"{sum(run.packets for run in runs):,} packets"
        )
        facts |= _payloads(runs)
    return "\n".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())


def _payloads(runs: Sequence[SimulatedRun]) -> dict[str, str]:
    facts = {}
    if (scale := max(run.virtual_scale for run in runs)) > 1:
        facts["payloads"] = f"virtual: each byte in memory stood for {scale}"
    if offered_bytes := max(run.background_bytes for run in runs):
        facts["background"] = f"{rounded_size(offered_bytes)} of others, at most in one row's runs"
    return facts


def _repetitions(comparison: Comparison) -> str:
    counts = [len(m.samples_s) for m in comparison.measurements]
    if not counts:
        return "none"
    fewest, most = min(counts), max(counts)
    count = str(most) if fewest == most else f"{fewest} to {most}"
    if comparison.is_replay:
        return f"{count} requests of each design at each size"
    return f"{count} operations of each method at each size, after a warm-up" + (
        "" if comparison.mode == "sim" else "; the methods take turns within one run"
    )


def _events(comparison: Comparison) -> str:
    """A table of the events of the first simulation that has any."""
    runs = [m.simulated for m in comparison.measurements if m.simulated is not None]
    happened = next((run.events for run in runs if run.events), [])
    if not happened:
        return ""
    rows = "\n".join(
        f"<tr><td>{rounded_duration(event.time_s)}</td><td>{escape(event.text)}</td></tr>"
        for event in happened[:_MOST_EVENTS]
    )
    more = len(happened) - _MOST_EVENTS
    note = f'<p class="note">and {more} more; the JSON has all of them.</p>' if more > 0 else ""
    return (
        '<h2>Events</h2>\n<div class="scroll">\n<table>\n'
        f"<tr><th>virtual time</th><th>what happened</th></tr>\n{rows}\n</table>\n</div>\n{note}"
    )
