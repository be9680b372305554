"""Shows the demonstration's comparison: progress lines, a table, and a page with a picture.

The picture is SVG that is written here, because the core has no plotting library.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from innet.lab.demo.demonstration import TrainingComparison
from innet.lab.demo.training import ALONE, TrainingRecord
from innet.output_files import write_output

TITLES: Final = {
    ALONE: "single process",
    "inc": "in-network",
    "ring": "ring",
    "ps": "parameter server",
}
_HEADINGS: Final = (
    "training", "time s", "waited s", "bound s", "link MB", "accuracy", "as single",
)  # fmt: skip
_LEGEND: Final = (
    "waited: for the averages of the gradients. bound: the least wait that the links' rate allows "
    "the algorithm. link: what crossed the busiest link in its busier direction. as single: "
    "whether the accuracy equals that of the single process."
)


def progress_line(record: TrainingRecord) -> str | None:
    """The progress of a training; ``None`` at its end, which the last epoch reported."""
    if record.busiest_link_bytes:
        return None
    ended = len(record.accuracies)
    if not ended:
        processes = "1 process" if record.ranks == 1 else f"{record.ranks} ranks"
        size = f"{record.gradient_bytes / 1e6:.2f} MB"
        return f"training in {processes}, {size} of gradients each step"
    waited = f", {record.waited_s:.2f} s of it waiting" if record.waited_s else ""
    return (
        f"epoch {ended}/{record.epochs}, loss {record.losses[-1]:.4f}, "
        f"accuracy {record.accuracies[-1]:.2%}, {record.seconds:.2f} s{waited}"
    )


def render_table(rows: Sequence[TrainingComparison]) -> RenderableType:
    """The comparison for the terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for number, heading in enumerate(_HEADINGS):
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row))
    return Group(table, Text(_LEGEND))


def _cells(row: TrainingComparison) -> list[str]:
    record = row.record
    if record.method == ALONE:
        of_network = ["-", "-", "-"]
    else:
        bound = "-" if row.bound_s is None else f"{row.bound_s:.2f}"
        of_network = [f"{record.waited_s:.2f}", bound, f"{record.busiest_link_bytes / 1e6:.1f}"]
    return [
        TITLES[record.method],
        f"{record.seconds:.2f}",
        *of_network,
        f"{record.accuracies[-1]:.2%}",
        "" if record.method == ALONE else "yes" if row.as_single else "NO",
    ]


def save(rows: Sequence[TrainingComparison], title: str, directory: Path) -> list[Path]:
    """Write the page, its picture and the records into ``directory``; returns the files."""
    directory.mkdir(parents=True, exist_ok=True)
    picture = draw(rows)
    documents = {
        "comparison.html": _page(rows, title, picture),
        "comparison.svg": picture,
        "comparison.json": json.dumps([row.record.model_dump() for row in rows], indent=2),
    }
    paths = [directory / name for name in documents]
    for path, text in zip(paths, documents.values(), strict=True):
        write_output(path, text)
    return paths


def _page(rows: Sequence[TrainingComparison], title: str, picture: str) -> str:
    heads = "".join(f"<th>{escape(text)}</th>" for text in _HEADINGS)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in _cells(row)) + "</tr>\n"
        for row in rows
    )
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>innet: {escape(title)}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em }}
table {{ border-collapse: collapse }} svg {{ max-width: 100%; height: auto }}
th, td {{ border-bottom: 1px solid #ccc; padding: .3em .8em; text-align: right }}
th:first-child, td:first-child {{ text-align: left }}
</style>
<h1>{escape(title)}</h1>
<table><tr>{heads}</tr>
{lines}</table>
<p>Every row trains the same network on the same batches; {escape(_LEGEND)}</p>
{picture}
</html>
"""


# The picture: loss curves on the left, times on the right.

_HEIGHT: Final = 340
_PANEL: Final = (480, 220)
"""Width and height of the axes of one panel."""
_LEFT, _RIGHT, _TOP = 50, 720, 60
_COLOURS: Final = ("#57606a", "#0969da", "#1a7f37", "#bc4c00")
_DASHES: Final = ("none", "8 4", "2 4", "10 3 2 3")
"""Curves that lie on each other stay visible."""
_COMPUTING, _WAITING = "#8c959f", "#0969da"


def draw(rows: Sequence[TrainingComparison]) -> str:
    """The losses of all steps, and where the time went, as SVG."""
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1220 {_HEIGHT}" width="1220" '
            f'height="{_HEIGHT}" role="img" aria-label="Loss curves, and times of each training" '
            'font-family="system-ui, sans-serif" font-size="13" fill="#1f2328">',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *_curves(rows),
            *_bars(rows),
            "</svg>",
        )
    )


def _curves(rows: Sequence[TrainingComparison]) -> list[str]:
    width, height = _PANEL
    highest = max(loss for row in rows for loss in row.record.losses)
    steps = max(len(row.record.losses) for row in rows)
    parts = [
        _text(_LEFT, 30, "Training loss", size=16),
        *_frame(_LEFT),
        _text(_LEFT + width, _TOP + height + 20, f"step {steps}", anchor="end"),
        _text(_LEFT - 6, _TOP + 10, f"{highest:.1f}", anchor="end"),
        _text(_LEFT - 6, _TOP + height, "0", anchor="end"),
    ]
    for number, row in enumerate(rows):
        colour = _COLOURS[number]
        points = " ".join(
            f"{_LEFT + width * step / max(steps - 1, 1):.1f},"
            f"{_TOP + height * (1 - loss / highest):.1f}"
            for step, loss in enumerate(row.record.losses)
        )
        line = f'fill="none" stroke="{colour}" stroke-width="2" '
        parts.append(f'<polyline points="{points}" {line}stroke-dasharray="{_DASHES[number]}"/>')
        at = _TOP + 20 + 20 * number
        parts.append(_text(_LEFT + width, at, TITLES[row.record.method], "end", colour=colour))
    return parts


def _bars(rows: Sequence[TrainingComparison]) -> list[str]:
    width, height = _PANEL
    longest_s = max(row.record.seconds for row in rows)
    # Spans of one text do not overlap, whatever the width of the font.
    parts = [
        f'<text x="{_RIGHT}" y="30" font-size="16">Time in seconds: '
        f'<tspan fill="{_COMPUTING}">computing</tspan> '
        f'<tspan fill="{_WAITING}">waiting for gradients</tspan></text>',
        *_frame(_RIGHT),
    ]
    step = height / len(rows)
    for number, row in enumerate(rows):
        record, top = row.record, _TOP + step * number + step * 0.2
        waited = width * record.waited_s / longest_s
        computed = width * record.seconds / longest_s - waited
        parts += [
            _text(_RIGHT - 8, top + step * 0.4, TITLES[record.method], "end"),
            _box(_RIGHT, top, computed, step * 0.6, _COMPUTING),
            _box(_RIGHT + computed, top, waited, step * 0.6, _WAITING),
        ]
        inside = computed + waited > width - 60
        at = _RIGHT + computed + waited + (-6 if inside else 6)
        time_s, anchor = f"{record.seconds:.2f}", "end" if inside else "start"
        colour = "#ffffff" if inside else "#1f2328"
        parts.append(_text(at, top + step * 0.4, time_s, anchor, colour=colour))
    return parts


def _frame(left: int) -> list[str]:
    width, height = _PANEL
    line = f"M{left} {_TOP}V{_TOP + height}H{left + width}"
    return [f'<path d="{line}" fill="none" stroke="#8c959f"/>']


def _box(left: float, top: float, width: float, height: float, colour: str) -> str:
    size = f'width="{width:.1f}" height="{height:.1f}"'
    return f'<rect x="{left:.1f}" y="{top:.1f}" {size} fill="{colour}"/>'


def _text(
    x: float, y: float, text: str, anchor: str = "start", *, colour: str = "#1f2328", size: int = 13
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}" font-size="{size}">{escape(text)}</text>'
