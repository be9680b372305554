"""A comparison as one HTML page that needs nothing else: no script, font or file from elsewhere."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from innet.compare.measurement import Comparison
from innet.compare.plots import (
    plot_bandwidths,
    plot_links,
    plot_queues,
    plot_ratios,
    plot_times,
)
from innet.compare.quantities import format_bytes
from innet.compare.summary import summary_sentences
from innet.compare.table import COLUMNS, table_cells


def write_report(comparison: Comparison, path: Path) -> None:
    """Write the page to ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_report(comparison), encoding="utf-8")


def render_report(comparison: Comparison) -> str:
    """The page's text."""
    template = Template(files("innet.compare").joinpath("report.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=escape(f"allreduce on {comparison.topology}"),
        about=escape(
            f"{comparison.hosts} hosts, {comparison.switches} "
            f"{'switch' if comparison.switches == 1 else 'switches'}, {comparison.links}; "
            f"mode {comparison.mode}; {comparison.machine.date}"
        ),
        summary="\n".join(f"<li>{escape(line)}</li>" for line in summary_sentences(comparison)),
        figures=_figures(comparison) if comparison.measurements else "",
        table=_table(comparison),
        facts=_facts(comparison),
    )


def _figures(comparison: Comparison) -> str:
    largest = format_bytes(comparison.sizes_bytes[-1])
    sections = (
        ("Time", "", plot_times(comparison)),
        ("Distance from the bound", "", plot_ratios(comparison)),
        ("Bandwidth", "", plot_bandwidths(comparison)),
        (
            "Queues and drops",
            f"The deepest queue of each method during one allreduce of {largest}; "
            "the red line counts dropped packets (right axis).",
            plot_queues(comparison),
        ),
        (
            "Bytes on the links",
            f"One allreduce of M = {largest}, every link in both directions, headers included.",
            plot_links(comparison),
        ),
    )
    return "\n".join(
        f"<h2>{heading}</h2>\n" + (f'<p class="note">{text}</p>\n' if text else "")
        + f"<figure>{svg}</figure>"
        for heading, text, svg in sections
        if svg is not None
    )  # fmt: skip


def _table(comparison: Comparison) -> str:
    rows = ["<tr>" + "".join(f"<th>{column}</th>" for column in COLUMNS) + "</tr>"]
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
            cells = "".join(f"<td>{escape(cell)}</td>" for cell in table_cells(m))
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
    return "\n".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())


def _repetitions(comparison: Comparison) -> str:
    counts = [len(m.samples_s) for m in comparison.measurements]
    if not counts:
        return "none"
    return (
        f"{min(counts)} to {max(counts)} operations of each method at each size, after a warm-up; "
        "the methods take turns within one run"
    )
