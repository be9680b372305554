"""Draws a topology as SVG, PNG or PDF: trees and Clos networks in levels, others as a map."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from innet.errors import TopologyError
from innet.output_files import open_output
from innet.topology.model import Topology
from innet.topology.summary import (
    counts,
    is_tiered,
    lateral_links,
    link_label,
    tiers,
    usual_link_label,
)

Position = tuple[float, float]

GROUP_GAP = 0.6
"""Additional distance between hosts of different switches, in distances between two of one."""

HOST_DISTANCE = 0.45
"""Distance of a host from its switch on a map, in units of a usual link between switches."""

SCIPY_NODES = 500
"""From this size on networkx lays out with SciPy, which is not a dependency."""


def positions(topology: Topology) -> dict[str, Position]:
    """Coordinates by node name.

    In a tiered network two hosts of a switch are one unit apart, and so are tiers. On a map, the
    median link between switches is one unit long.
    """
    return _levels(topology) if is_tiered(topology) else _map(topology)


def _levels(topology: Topology) -> dict[str, Position]:
    graph = topology.graph()
    placed = _host_row(topology)
    width = max(x for x, _ in placed.values()) + 1
    for height, level in enumerate(tiers(topology)[1:], start=1):
        wanted = {
            switch: float(np.mean([placed[below][0] for below in graph[switch] if below in placed]))
            for switch in level
        }
        row = sorted(level, key=lambda switch: wanted[switch])
        gap = max(1.0, 0.8 * width / len(row))
        xs = _spread([wanted[switch] for switch in row], gap)
        placed.update({switch: (x, float(height)) for switch, x in zip(row, xs, strict=True)})
    return placed


def _host_row(topology: Topology) -> dict[str, Position]:
    """Hosts in rank order, but those of one switch side by side and a little apart from others."""
    graph = topology.graph()
    attachment = {host: next(iter(graph[host]), host) for host in topology.hosts}
    place = {switch: index for index, switch in enumerate(_along_lines(topology, attachment))}
    row = sorted(topology.hosts, key=lambda host: place[attachment[host]])
    xs = [0.0]
    for left, right in pairwise(row):
        xs.append(xs[-1] + 1 + (0 if attachment[left] == attachment[right] else GROUP_GAP))
    return {host: (x, 0.0) for host, x in zip(row, xs, strict=True)}


def _along_lines(topology: Topology, attachment: dict[str, str]) -> list[str]:
    """The switches of hosts, by first rank, but neighbours on a line one after the other."""
    lateral = lateral_links(topology)
    order: dict[str, None] = {}
    for switch in dict.fromkeys(attachment.values()):
        if switch in order:
            continue
        if not lateral.has_node(switch):
            order[switch] = None
            continue
        line = nx.node_connected_component(lateral, switch)
        end = next(
            name for name in attachment.values() if name in line and lateral.degree[name] == 1
        )
        order.update(dict.fromkeys(nx.dfs_preorder_nodes(lateral, end)))
    return list(order)


def _spread(wanted: Sequence[float], gap: float) -> list[float]:
    """The positions nearest to ``wanted`` (ascending) that keep ``gap``: isotonic least squares.

    By pool-adjacent-violators: positions that would overlap share their mean.
    """
    pools: list[tuple[float, int]] = []
    for index, x in enumerate(wanted):
        mean, count = x - index * gap, 1
        while pools and pools[-1][0] >= mean:
            left_mean, left_count = pools.pop()
            mean = (mean * count + left_mean * left_count) / (count + left_count)
            count += left_count
        pools.append((mean, count))
    means = [mean for mean, count in pools for _ in range(count)]
    return [mean + index * gap for index, mean in enumerate(means)]


def _map(topology: Topology) -> dict[str, Position]:
    core: nx.Graph[str] = topology.graph().subgraph(topology.switches).copy()
    delays = [attributes["link"].delay_s for _, _, attributes in core.edges(data=True)]
    for _, _, attributes in core.edges(data=True):
        attributes["distance"] = attributes["link"].delay_s if all(delays) else 1.0
    placed = _to_unit_links(core, _spring(core, _scaled_map(core)))
    for switch in topology.switches:
        hosts = [host for host in topology.graph()[switch] if host in topology.hosts]
        placed.update(_around(switch, hosts, core, placed))
    return placed


def _scaled_map(core: nx.Graph[str]) -> NDArray[np.float64]:
    """Classical multidimensional scaling: a plane in which distances are as the paths are long.

    W. S. Torgerson: "Multidimensional scaling: I. Theory and method", Psychometrika 17 (1952).
    """
    squared = np.asarray(nx.floyd_warshall_numpy(core, weight="distance")) ** 2
    centring = np.eye(len(squared)) - 1 / len(squared)
    values, vectors = np.linalg.eigh(-centring @ squared @ centring / 2)
    plane: NDArray[np.float64] = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0))
    return plane[:, ::-1] / max(float(np.abs(plane).max()), 1e-12)


def _spring(core: nx.Graph[str], start: NDArray[np.float64]) -> dict[str, Position]:
    """Some steps of a force-directed layout, which part nodes that the scaling put on one spot."""
    settled = dict(zip(core, start, strict=True))
    if len(settled) < SCIPY_NODES:
        settled = nx.spring_layout(core, pos=settled, iterations=50, seed=0)
    return {name: (float(x), float(y)) for name, (x, y) in settled.items()}


def _to_unit_links(core: nx.Graph[str], placed: dict[str, Position]) -> dict[str, Position]:
    lengths = [math.dist(placed[u], placed[v]) for u, v in core.edges()]
    unit = float(np.median(lengths)) or 1.0
    return {name: (x / unit, y / unit) for name, (x, y) in placed.items()}


def _around(
    switch: str, hosts: Sequence[str], core: nx.Graph[str], placed: dict[str, Position]
) -> dict[str, Position]:
    """Hosts of a switch side by side, in the widest sector without a link to another switch."""
    x, y = placed[switch]
    links = sorted(math.atan2(placed[n][1] - y, placed[n][0] - x) for n in core[switch])
    ends = [*links[1:], links[0] + math.tau]
    start, end = max(zip(links, ends, strict=True), key=lambda sector: sector[1] - sector[0])
    step = (end - start) / (len(hosts) + 1)
    return {
        host: (
            x + HOST_DISTANCE * math.cos(start + step * (index + 1)),
            y + HOST_DISTANCE * math.sin(start + step * (index + 1)),
        )
        for index, host in enumerate(hosts)
    }


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
    _draw_nodes(axes, (*topology.hosts, *topology.workers_of), place, "s", HOST_COLOUR)
    _draw_nodes(axes, topology.separate_switches, place, "o", SWITCH_COLOUR)
    _draw_names(axes, topology, place)
    _finish(axes, topology)
    # Text stays text, and the same network gives the same bytes.
    reproducible: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": topology.name}
    try:
        with mpl.rc_context(reproducible), open_output(path) as file:
            kind = path.suffix.lower()
            figure.savefig(file, dpi=150, format=kind[1:], metadata=_NO_DATE.get(kind))
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
    unusual = [link for link in topology.links if not link.in_memory and link_label(link) != usual]
    for link in topology.links:
        (x0, y0), (x1, y1) = (place[node] for node in link.nodes)
        style = ":" if link.in_memory else "-"
        axes.plot((x0, x1), (y0, y1), style, color=LINK_COLOUR, linewidth=1.3, zorder=1)
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
    labels = {link_label(link) for link in topology.links if not link.in_memory}
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
