"""A comparison as one HTML page that needs nothing else: no script, font or file from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from innet.lab.compare.measurement import Comparison, SimulatedRun
from innet.lab.compare.plots import (
    plot_bandwidths,
    plot_blocks,
    plot_busiest_links,
    plot_links,
    plot_one_size,
    plot_queues,
    plot_ratios,
    plot_timeline,
    plot_times,
)
from innet.lab.compare.quantities import format_bytes, format_seconds
from innet.lab.compare.summary import columns_of, summary_sentences, table_cells

_MOST_EVENTS = 100


def write_report(comparison: Comparison, path: Path) -> None:
    """Write the page to ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_report(comparison), encoding="utf-8")


def render_report(comparison: Comparison) -> str:
    """The page's text."""
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
        table=_table(comparison),
        facts=_facts(comparison),
    )


def _figures(comparison: Comparison) -> str:
    one = f"one {comparison.operation} of {format_bytes(comparison.sizes_bytes[-1])}"
    over_sizes = _has_sizes(comparison)
    if comparison.is_replay:
        return _replay_figures(comparison)
    sections = (
        ("Time", "", plot_times(comparison) if over_sizes else plot_one_size(comparison)),
        ("Distance from the bound", "", plot_ratios(comparison) if over_sizes else None),
        ("Bandwidth", "", plot_bandwidths(comparison) if over_sizes else None),
        (
            "Over time",
            "Each operation where it ended, with the first seed; vertical lines are events.",
            plot_timeline(comparison),
        ),
        (
            "Queues and drops",
            f"The deepest queue of each method during {one}; "
            "the red line counts dropped packets (right axis).",
            plot_queues(comparison),
        ),
        (
            "Bytes on the links",
            f"M is the size; {one}, every link in both directions, headers included.",
            plot_links(comparison),
        ),
    )
    return _as_html(sections)


def _replay_figures(comparison: Comparison) -> str:
    over_sizes = _has_sizes(comparison)
    return _as_html(
        (
            (
                "Where blocks were found",
                "Shares of all blocks of all requests; what is found nowhere is computed.",
                plot_blocks(comparison),
            ),
            (
                "Bytes on the busiest link",
                "Of a request, headers included.",
                plot_busiest_links(comparison),
            ),
            (
                "Time to the first token",
                "",
                plot_times(comparison) if over_sizes else plot_one_size(comparison),
            ),
            (
                "Over time",
                "Each request where its first token came, with the first seed; vertical lines are "
                "events.",
                plot_timeline(comparison),
            ),
        )
    )


def _as_html(sections: Sequence[tuple[str, str, str | None]]) -> str:
    return "\n".join(
        f"<h2>{heading}</h2>\n" + (f'<p class="note">{text}</p>\n' if text else "")
        + f"<figure>{svg}</figure>"
        for heading, text, svg in sections
        if svg is not None
    )  # fmt: skip


def _has_sizes(comparison: Comparison) -> bool:
    """Whether any method was measured at more than one size."""
    return any(len(comparison.of_method(method)) > 1 for method in comparison.methods)


def _table(comparison: Comparison) -> str:
    columns = columns_of(comparison)
    rows = ["<tr>" + "".join(f"<th>{column}</th>" for column in columns) + "</tr>"]
    for size_bytes in comparison.sizes_bytes:
        found = (comparison.measurement(method, size_bytes) for method in comparison.methods)
        measured = [m for m in found if m is not None]
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
            f"{format_seconds(virtual_s)} of virtual time in {format_seconds(wall_s)}, "
            f"{sum(run.packets for run in runs):,} packets"
        )
        facts |= _payloads(runs)
    return "\n".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())


def _payloads(runs: Sequence[SimulatedRun]) -> dict[str, str]:
    facts = {}
    if (scale := max(run.virtual_scale for run in runs)) > 1:
        facts["payloads"] = f"virtual: each byte in memory stood for {scale}"
    if offered_bytes := max(run.background_bytes for run in runs):
        facts["background"] = f"{format_bytes(offered_bytes)} of others, at most in one row's runs"
    return facts


def _repetitions(comparison: Comparison) -> str:
    counts = [len(m.samples_s) for m in comparison.measurements]
    if not counts:
        return "none"
    return (
        f"{min(counts)} to {max(counts)} operations of each method at each size, after a warm-up"
        + ("" if comparison.mode == "sim" else "; the methods take turns within one run")
    )


def _events(comparison: Comparison) -> str:
    """What happened in the first simulation in which something did, as a table."""
    runs = [m.simulated for m in comparison.measurements if m.simulated is not None]
    happened = next((run.events for run in runs if run.events), [])
    if not happened:
        return ""
    rows = "\n".join(
        f"<tr><td>{format_seconds(event.time_s)}</td><td>{escape(event.text)}</td></tr>"
        for event in happened[:_MOST_EVENTS]
    )
    more = len(happened) - _MOST_EVENTS
    note = f'<p class="note">and {more} more; the JSON has all of them.</p>' if more > 0 else ""
    return (
        '<h2>Events</h2>\n<div class="scroll">\n<table>\n'
        f"<tr><th>virtual time</th><th>what happened</th></tr>\n{rows}\n</table>\n</div>\n{note}"
    )
