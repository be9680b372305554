"""How runs that combine pairs in different places are shown beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # rank 0 alone draws; the others need not wait for the import
    from matplotlib.axes import Axes

_PLACES = {"inc": "in the switches", "ps": "on one host", "ring": "round the hosts"}


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
