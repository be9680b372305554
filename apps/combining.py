"""The command line and figures of ``pagerank.py`` and ``wordcount.py``, which compare places to
combine pairs by key."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # rank 0 alone draws; the others need not wait for the import
    from matplotlib.axes import Axes

_PLACES = {"inc": "in the switches", "ps": "on one host", "ring": "round the hosts"}


def argument_parser(documentation: str, verb: str, output: Path) -> argparse.ArgumentParser:
    """A parser with the options of every such app.

    Args:
        documentation: of the program: a summary, an empty line, and examples.
        verb: what the app does with pairs of the same key.
        output: where rank 0 saves by default.
    """
    description, _, examples = documentation.partition("\n\n")
    parser = argparse.ArgumentParser(
        description=description,
        epilog="examples:\n" + examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--algorithms",
        nargs="+",
        default=["inc", "ps"],
        metavar="ALGORITHM",
        help=f"where to {verb}: inc, ps, ring, ps:server=h3, ... (default: inc ps)",
    )
    parser.add_argument("--output", type=Path, default=output, help="where rank 0 saves")
    return parser


def place_of(algorithm: str) -> str:
    """The place where an algorithm combines, as text: ``in the switches (inc)``."""
    return f"{_PLACES.get(algorithm, '')} ({algorithm})".strip()


def draw_bars(
    axes: Axes, algorithms: Sequence[str], values: Sequence[float], *, unit: str, title: str
) -> None:
    """A bar for each algorithm."""
    axes.barh([_PLACES.get(algorithm, algorithm) for algorithm in algorithms], values)
    axes.set(xlabel=unit, title=title)


def draw_busiest_link(axes: Axes, algorithms: Sequence[str], link_bytes: Sequence[int]) -> None:
    """A bar for each algorithm: bytes on the host's link that carried the most."""
    megabytes = [size_bytes / 1e6 for size_bytes in link_bytes]
    draw_bars(axes, algorithms, megabytes, unit="megabytes", title="On the busiest host's link")
