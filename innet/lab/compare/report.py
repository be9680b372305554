"""Shows a comparison: its main results in sentences, a table on the terminal, and an HTML page.

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

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from innet import extras
from innet.lab.compare.measurement import (
    OVERLOADED_BOUNDS,
    BlockPlaces,
    Comparison,
    Measurement,
    SimulatedRun,
)
from innet.lab.compare.methods import BASELINES, IN_NETWORK, is_incast, is_over_tcp
from innet.quantities import rounded_duration, rounded_rate, rounded_size


def summary_sentences(comparison: Comparison) -> list[str]:
    """The main results at the largest size, and everything that failed.

    A sentence attributes to latency, loss or processor time what the bytes do not explain.
    """
    sentences = []
    jobs = list(dict.fromkeys(m.job for m in comparison.measurements if m.job))
    for job in jobs:
        of_job = [m for m in comparison.largest if m.job == job]
        sentences += [_summary_of_largest(of_job), *_replays(of_job)]
    if comparison.sizes_bytes and not jobs:
        largest = comparison.at_size(comparison.sizes_bytes[-1])
        sentences += [_summary_of_largest(largest)]
        sentences += _replays(largest)
        sentences += _against_peers(largest)
        sentences += _incast(largest)
        sentences += _small(comparison)
    if comparison.mode == "local" and not comparison.is_replay:
        sentences.append(_loopback(comparison))
    if comparison.interrupted:
        sentences.append("Interrupted: this is what had been measured by then.")
    if comparison.mode != "sim" and comparison.machine.is_busy:
        sentences.append(
            f"The machine was busy before ({comparison.machine.load:g} processes wanted its "
            f"{comparison.machine.cores} cores): times may be too long."
        )
    sentences += _overloads(comparison)
    wrong = [m for m in comparison.measurements if not m.correct]
    sentences += [f"WRONG RESULTS: {m.title} at {rounded_size(m.size_bytes)}." for m in wrong]
    sentences += [
        f"{failure.method} could not be measured"
        + (f" from {rounded_size(failure.size_bytes)} on" if failure.size_bytes else "")
        + f": {failure.reason.splitlines()[0]}"
        for failure in comparison.failures
    ]
    return sentences


def _loopback(comparison: Comparison) -> str:
    if any(method in BASELINES for method in comparison.methods):
        return (
            "Gloo and Open MPI over TCP ran over loopback; innet's links and Open MPI over shared "
            "memory did not use the kernel's network."
        )
    return (
        "Gloo and Open MPI did not take part. --mode netns runs them over the same links; in local "
        "mode they use loopback, and take part where no link has a rate, a delay or loss."
    )


def _summary_of_largest(measurements: list[Measurement]) -> str:
    is_replay = all(m.blocks is not None for m in measurements)
    return _first_tokens(measurements) if is_replay else _fastest(measurements)


def _fastest(measurements: list[Measurement]) -> str:
    best, *others = sorted(measurements, key=lambda m: m.median_s)
    sentence = (
        f"At {rounded_size(best.size_bytes)} the fastest is {best.title}: "
        f"{rounded_duration(best.median_s)}"
    )
    if best.least_s is not None and best.ratio_to_bound is not None:
        needed_by = (
            "its bytes need" if best.completion_bound_s is None else "bytes and latency need"
        )
        sentence += (
            f", {best.ratio_to_bound:.2f} times the {rounded_duration(best.least_s)} "
            f"that {needed_by} on the links"
        )
    alike = [m.title for m in others if not best.differs_from(m)]
    if alike:
        sentence += f"; no difference measured from {', '.join(alike)}"
    return sentence + "."


def _first_tokens(measurements: list[Measurement]) -> str:
    times = ", ".join(f"{m.method} {rounded_duration(m.median_s)}" for m in measurements)
    sentence = (
        f"With {rounded_size(measurements[0].size_bytes)} of memory for blocks, the median time to "
        f"the first token is: {times}"
    )
    best, *others = sorted(measurements, key=lambda m: m.median_s)
    alike = [m.method for m in others if not best.differs_from(m)]
    if alike:
        sentence += f". No difference measured: {', '.join([best.method, *alike])}"
    return sentence + "."


def _replays(measurements: list[Measurement]) -> list[str]:
    sentences = []
    for m in measurements:
        if m.blocks is None:
            continue
        sentence = (
            f"{m.method}: {m.blocks.hit_rate:.1%} of {m.blocks.asked} blocks need not be computed"
        )
        rates = (m.blocks.one_store_rate, m.blocks.belady_rate, m.blocks.ideal_rate)
        if None not in rates:
            one_store, belady, ideal = rates
            sentence += (
                f" (one store with all memory: {one_store:.1%}, Belady's bound: {belady:.1%}, with "
                f"memory for all blocks: {ideal:.1%})"
            )
        if m.busiest_link is not None and m.busiest_link.bytes_per_operation:
            carried = rounded_size(m.busiest_link.bytes_per_operation)
            sentence += f"; {m.busiest_link}, the busiest link, carries {carried} a request"
        sentences.append(sentence + ".")
    return sentences


def _against_peers(measurements: list[Measurement]) -> list[str]:
    own = next((m for m in measurements if m.method == IN_NETWORK), None)
    if own is None:
        return []
    sentences = []
    for peer in measurements:
        if peer.method == IN_NETWORK or is_incast(peer.method):
            continue
        if not own.differs_from(peer):
            sentences.append(
                f"Between {own.title} and {peer.title} no difference measured: medians of "
                f"{_median_of(own)} and {_median_of(peer)}, the spread is larger."
            )
            continue
        factor = peer.median_s / own.median_s
        sentence = f"{own.title} takes {1 / factor:.2f} times the time of {peer.title}"
        if factor >= 1:
            sentence = f"{own.title} is {factor:.2f} times as fast as {peer.title}"
        sentences.append(sentence[0].upper() + sentence[1:] + _explanation(own, peer, factor))
    return sentences


def _median_of(m: Measurement) -> str:
    samples = "1 sample" if len(m.samples_s) == 1 else f"{len(m.samples_s)} samples"
    return f"{rounded_duration(m.median_s)} ({samples}, spread {rounded_duration(m.spread_s)})"


def _explanation(own: Measurement, peer: Measurement, factor: float) -> str:
    if own.bound_s is None or peer.bound_s is None:
        return "; no link has a rate, so the difference is latency and processor time."
    by_bytes = peer.bound_s / own.bound_s
    if factor <= by_bytes:
        return f"; the bytes on the links alone would allow {by_bytes:.2f}."
    return (
        f"; the bytes on the links explain {by_bytes:.2f} of it, the rest is latency, loss, "
        "queueing or processor time of the slower one."
    )


def _incast(measurements: list[Measurement]) -> list[str]:
    sentences = []
    for m in measurements:
        queue = m.deepest_queue
        if queue is None or not is_incast(m.method):
            continue
        sent = (
            "every rank sends its tensor to one host"
            if is_over_tcp(m.method)
            else "one host requests every rank's tensor"
        )
        title = m.title[0].upper() + m.title[1:]
        sentences.append(
            f"{title}: {sent}, and an allreduce takes {rounded_duration(m.median_s)}; "
            f"up to {rounded_size(m.deepest_queue_bytes)} wait at {queue.source} for "
            f"{queue.destination}, and {m.drops} {'packet is' if m.drops == 1 else 'packets are'} "
            f"dropped in {len(m.samples_s)} {'run' if len(m.samples_s) == 1 else 'runs'}."
        )
    return sentences


def _overloads(comparison: Comparison) -> list[str]:
    """A warning for each figure that shows an overload instead of its algorithm.

    Only the largest size is compared with its bound, because latency dominates small operations.
    TCP drops packets to find its rate; innet's methods should drop none.
    """
    largest = comparison.largest
    sentences = []
    for m in comparison.measurements:
        found = []
        ratio = m.ratio_to_bound
        if m.drops and m.blocks is None and not is_over_tcp(m.method):
            found.append(f"dropped {m.drops} {'packet' if m.drops == 1 else 'packets'}")
        if ratio is not None and ratio >= OVERLOADED_BOUNDS and m in largest:
            found.append(f"took {ratio:.1f} times its bound")
        if found:
            sentences.append(
                f"Warning: {m.title} at {rounded_size(m.size_bytes)} {' and '.join(found)}: "
                "this figure shows a defect or an overload, not the algorithm."
            )
    return sentences


def _small(comparison: Comparison) -> list[str]:
    size_bytes = comparison.sizes_bytes[0]
    small = sorted(comparison.at_size(size_bytes), key=lambda m: m.median_s)
    if len(comparison.sizes_bytes) < 2 or len(small) < 2:
        return []
    times = ", ".join(f"{m.title} {rounded_duration(m.median_s)}" for m in small)
    return [f"At {rounded_size(size_bytes)}, where latency counts: {times}."]


_ABSENT = "-"

WIDE = 150
"""Columns of a terminal that shows all figures of a measurement."""


def render_table(comparison: Comparison, width: int = WIDE) -> RenderableType:
    """The table of all measurements, what failed, and the summary.

    Args:
        comparison: what to show.
        width: columns of the terminal; below :data:`WIDE` only the main figures are shown.

    Example::

        console.print(render_table(comparison, console.width))
    """
    columns = columns_of(comparison)
    shown = [name for name in columns if width >= WIDE or name in _MAIN_COLUMNS]
    title = f"{comparison.workload} on {comparison.topology}, {comparison.mode}: {comparison.links}"
    table = Table(title=title, title_justify="left", header_style="bold", pad_edge=False)
    for name in shown:
        table.add_column(name, justify="left" if name == "method" else "right")
    for size_bytes in comparison.sizes_bytes:
        table.add_section()
        rows = comparison.at_size(size_bytes)
        fastest_s = min(row.median_s for row in rows)
        for row in rows:
            style = "bold green" if row.median_s == fastest_s else ""
            cells = table_cells(row)
            table.add_row(
                *(cells[name] for name in shown), style=style if row.correct else "bold red"
            )
    parts: list[RenderableType] = [table]
    parts += [Text(f"• {sentence}") for sentence in summary_sentences(comparison)]
    return Group(*parts)


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
_MAIN_COLUMNS = (
    "size", "method", "median", "samples", "bound", "ratio", "deepest queue", "drops", "hits",
    "one store", "Belady", "ideal", "computed",
)  # fmt: skip
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
    path.write_text(render_report(comparison, links), encoding="utf-8")


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
            cells = "".join(f"<td>{escape(by_column[column])}</td>" for column in columns)
            rows.append(f'<tr class="{" ".join(classes)}">{cells}</tr>')
    return "\n".join(rows)


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
