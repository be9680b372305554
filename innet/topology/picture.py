"""Draws a topology as SVG, PNG or PDF."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from innet.errors import TopologyError
from innet.topology.layout import Position, positions
from innet.topology.model import Topology
from innet.topology.summary import counts, link_label, usual_link_label
from innet.topology.tiers import is_tiered

FORMATS: Final = (".svg", ".png", ".pdf")
MAX_DRAWN_NODES: Final = 2000
MAX_NAMED_NODES: Final = 300
MAX_LABELLED_LINKS: Final = 60
MAX_LEVEL_HOST_NAMES: Final = 40
MAX_WIDTH_INCHES: Final = 36.0

_NO_DATE: Final[dict[str, dict[str, Any]]] = {
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}

HOST_COLOUR: Final = "#3E6FA3"
SWITCH_COLOUR: Final = "#E08A2C"
LINK_COLOUR: Final = "#9AA0A8"
TEXT_COLOUR: Final = "#22262B"


def draw_picture(topology: Topology, path: Path) -> None:
    """Draw a topology; see :func:`innet.topology.show.draw`."""
    if path.suffix.lower() not in FORMATS:
        known = ", ".join(FORMATS)
        raise TopologyError(f"expected a picture of type {known}, found {path.suffix!r}", path=path)
    if len(topology.nodes) > MAX_DRAWN_NODES:
        raise TopologyError(
            f"{len(topology.nodes)} nodes are too many for a picture; "
            f"expected at most {MAX_DRAWN_NODES}, print the text instead"
        )
    place = positions(topology)
    figure = Figure(figsize=_size_inches(topology, place), layout="constrained")
    axes = figure.add_subplot()
    _draw_links(axes, topology, place)
    _draw_nodes(axes, topology.hosts, place, "s", HOST_COLOUR)
    _draw_nodes(axes, topology.switches, place, "o", SWITCH_COLOUR)
    _draw_names(axes, topology, place)
    _finish(axes, topology)
    # Text stays text, and the same network gives the same bytes.
    reproducible: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": topology.name}
    try:
        with mpl.rc_context(reproducible):
            figure.savefig(path, dpi=150, metadata=_NO_DATE.get(path.suffix.lower()))
    except OSError as error:
        raise TopologyError(f"cannot be written: {error.strerror}", path=path) from None


def _size_inches(topology: Topology, place: dict[str, Position]) -> tuple[float, float]:
    xs, ys = zip(*place.values(), strict=True)
    width, height = max(xs) - min(xs), max(ys) - min(ys)
    if is_tiered(topology):
        inches = min(max(6.0, 0.62 * width + 1.5), MAX_WIDTH_INCHES)
        return inches, max(1.7, inches / 10) * height + 1.8
    return min(max(6.0, 2.0 * width + 1.5), MAX_WIDTH_INCHES), max(4.0, 2.0 * height + 1.5)


def _draw_links(axes: Axes, topology: Topology, place: dict[str, Position]) -> None:
    usual = usual_link_label(topology)
    unusual = [link for link in topology.links if link_label(link) != usual]
    for link in topology.links:
        (x0, y0), (x1, y1) = (place[node] for node in link.nodes)
        axes.plot((x0, x1), (y0, y1), color=LINK_COLOUR, linewidth=1.3, zorder=1)
    for link in unusual if len(unusual) <= MAX_LABELLED_LINKS else ():
        (x0, y0), (x1, y1) = (place[node] for node in link.nodes)
        axes.text(
            (x0 + x1) / 2,
            (y0 + y1) / 2,
            link_label(link).replace(" ", "\n", 1),
            fontsize=7,
            color=TEXT_COLOUR,
            ha="center",
            va="center",
            linespacing=1.0,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.9},
            zorder=2,
        )


def _draw_nodes(
    axes: Axes, names: Sequence[str], place: dict[str, Position], marker: str, colour: str
) -> None:
    if names:
        xs, ys = zip(*(place[name] for name in names), strict=True)
        axes.scatter(xs, ys, s=160, marker=marker, c=colour, edgecolors="white", zorder=3)


def _draw_names(axes: Axes, topology: Topology, place: dict[str, Position]) -> None:
    upright = is_tiered(topology) and len(topology.hosts) > MAX_LEVEL_HOST_NAMES
    for name in topology.nodes if len(topology.nodes) <= MAX_NAMED_NODES else ():
        above = _is_name_above(topology, name, place)
        axes.annotate(
            name,
            place[name],
            xytext=(0, 8 if above else -8),
            textcoords="offset points",
            ha="center",
            va="bottom" if above else "top",
            rotation=90 if upright and name in topology.hosts else 0,
            fontsize=8,
            color=TEXT_COLOUR,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.8},
            zorder=4,
        )


def _is_name_above(topology: Topology, name: str, place: dict[str, Position]) -> bool:
    """Above switches in a tiered network, and otherwise on the side away from the neighbours."""
    if is_tiered(topology):
        return name in topology.switches
    heights = [place[neighbour][1] for neighbour in topology.graph()[name]]
    return place[name][1] >= sum(heights) / len(heights)


def _finish(axes: Axes, topology: Topology) -> None:
    usual = usual_link_label(topology)
    labels = {link_label(link) for link in topology.links}
    exceptions = " unless labelled" if len(labels) > 1 else ""
    of_links = "" if usual is None else f", {usual}{exceptions}"
    axes.set_title(f"{topology.name}: {counts(topology)}{of_links}", fontsize=10, color=TEXT_COLOUR)
    axes.margins(x=0.06, y=0.16)
    if not is_tiered(topology):
        axes.set_aspect("equal", adjustable="datalim")
    keys = [
        Line2D([], [], linestyle="", marker=marker, markersize=9, color=colour, label=label)
        for marker, colour, label in (("s", HOST_COLOUR, "host"), ("o", SWITCH_COLOUR, "switch"))
    ]
    axes.legend(
        handles=keys,
        loc="lower right",
        fontsize=8,
        frameon=False,
        ncols=2,
        bbox_to_anchor=(1, -0.04),
    )
    axes.set_axis_off()
