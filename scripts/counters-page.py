#!/usr/bin/env python3
"""Writes docs/counters.md from the descriptions that the native node gives of its counters.

Run it after a counter was added or changed: .venv/bin/python scripts/counters-page.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from innet._native import _core

PAGE = Path(__file__).parents[1] / "docs" / "counters.md"
TITLES = {
    "node": "Node: tables and forwarding (`tables`)",
    "reducer": "Reductions (`reducer`)",
    "endpoint": "Publishing and fetching of a host's application (`endpoint`)",
    "management": "Management (in `innet status --json` and Prometheus only)",
    "links": "Each link (`links`)",
    "port": "The emulator's queue of a link (`links`, `port`)",
}


def page() -> str:
    """The whole page."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Counters of a node"
    yield ""
    yield "Look up here what a figure in `innet status`, in telemetry or in Prometheus means."
    yield "Every figure counts from the start of the node's process. The first column is the key in"
    yield "status documents and telemetry ([telemetry](telemetry.md)), the second the name in"
    yield "Prometheus, to which counters add `_total`; figures without one are not exposed there."
    yield ""
    yield "`scripts/counters-page.py` writes this page from the tables beside the counters in C++"
    yield "(`Counters::metrics()`)."
    for table, rows in _core.describe_metrics().items():
        yield ""
        yield f"## {TITLES[table]}"
        yield ""
        yield "| key | in Prometheus | kind | what it counts |"
        yield "|---|---|---|---|"
        for key, name, kind, text in rows:
            exposed = f"`innet_{name}`" if name else ""
            yield f"| `{key}` | {exposed} | {kind} | {text} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page())
