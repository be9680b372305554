"""A comparison's files, and its table on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from innet.cli.text_output import open_console, say

if TYPE_CHECKING:
    from innet.lab.compare.measurement import Comparison


def show_comparison(comparison: Comparison, directory: Path, as_json: bool) -> None:
    """Write ``comparison.json`` and ``report.html``, and print the table, or the JSON."""

    from innet.lab.compare.report import write_report
    from innet.lab.compare.table import WIDE, render_table

    document, report = directory / "comparison.json", directory / "report.html"
    comparison.save(document)
    write_report(comparison, report)
    if as_json:
        say(comparison.model_dump_json(indent=2))
    else:
        console = open_console(highlight=False)
        if not console.is_terminal:
            console.width = WIDE
        console.print(render_table(comparison, console.width))
    say(f"JSON: {document}\nreport: {report}", err=as_json)
