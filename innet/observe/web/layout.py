"""Where each node of a network is drawn: in tiers, or by springs where there are none.

Coordinates have the unit of one node's spacing; the page scales them to its canvas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import networkx as nx

from innet.topology import Topology
from innet.topology.summary import is_tiered, tier_of_nodes, tiers

Position = tuple[float, float]

_HOSTS_IN_A_ROW = 32
_TIER_GAP = 2.0
"""Least distance of two tiers; wide networks have more."""
_WIDTH_PER_HEIGHT = 2.0
_GROUP_GAP = 0.6
"""Between the hosts of two switches."""
_MOST_SPRUNG = 450
"""networkx needs SciPy to spring more nodes."""
_SEED = 1


def positions(topology: Topology) -> dict[str, Position]:
    """The coordinates of every node; y grows downwards, to the hosts."""
    if is_tiered(topology) or len(topology.switches) > _MOST_SPRUNG:
        return _tiered(topology)
    return _sprung(topology)


def _tiered(topology: Topology) -> dict[str, Position]:
    placed, width = _host_blocks(topology)
    depth = max((y for _, y in placed.values()), default=0.0)
    switch_tiers = tiers(topology)[1:]
    gap = max(_TIER_GAP, (width / _WIDTH_PER_HEIGHT - depth) / max(1, len(switch_tiers)))
    for number, names in enumerate(switch_tiers, start=1):
        wanted = {name: _mean_x(topology, name, placed) for name in names}
        ordered = sorted(names, key=lambda name: wanted[name])  # stable: natural order among equals
        for name, x in zip(ordered, _spread(ordered, wanted, width), strict=True):
            placed[name] = (x, -number * gap)
    return placed


def _host_blocks(topology: Topology) -> tuple[dict[str, Position], float]:
    """The hosts below their switches, each switch's in a block; and the width of all."""
    by_switch: dict[str, list[str]] = {}
    for host in topology.hosts:
        by_switch.setdefault(_attachment(topology, host), []).append(host)
    hosts = len(topology.hosts)
    rows = 1 if hosts <= _HOSTS_IN_A_ROW else math.ceil(math.sqrt(hosts) / 2.2)
    placed: dict[str, Position] = {}
    left = 0.0
    for members in by_switch.values():
        columns = math.ceil(len(members) / rows)
        for number, host in enumerate(members):
            row, column = divmod(number, columns)
            # Rows are shifted so that the links to a row do not hide those to the next one.
            placed[host] = (left + column + row / rows, float(row))
        left += columns + (1 - 1 / rows) + _GROUP_GAP
    return placed, max(1.0, left - _GROUP_GAP - 1)


def _attachment(topology: Topology, host: str) -> str:
    neighbours = topology.links_of[host]
    switches = [name for name in neighbours if topology.nodes[name].kind == "switch"]
    return switches[0] if switches else host


def _mean_x(topology: Topology, switch: str, placed: Mapping[str, Position]) -> float:
    below = [placed[name][0] for name in topology.links_of[switch] if name in placed]
    return sum(below) / len(below) if below else 0.0


def _spread(names: Sequence[str], wanted: Mapping[str, float], width: float) -> list[float]:
    """The wanted places where they are apart from each other, else even ones over the width."""
    places = [wanted[name] for name in names]
    if all(right - left >= 1 for left, right in pairwise(places)):
        return places
    step = width / len(names)
    return [step * (number + 0.5) for number in range(len(names))]


def _sprung(topology: Topology) -> dict[str, Position]:
    """Switches by springs, and the hosts of each around it, away from the others."""
    graph = topology.graph().subgraph(topology.switches)
    scale = 2.2 * math.sqrt(len(topology.switches))
    sprung = nx.spring_layout(graph, seed=_SEED, scale=scale, iterations=200)
    placed = {name: (1.6 * float(x), float(y)) for name, (x, y) in sprung.items()}
    for switch in topology.switches:
        hosts = [name for name in topology.links_of[switch] if topology.nodes[name].kind == "host"]
        for host, angle in zip(hosts, _fan(placed[switch], len(hosts)), strict=True):
            radius = 1.7 + 0.2 * max(0, len(hosts) - 6)
            x, y = placed[switch]
            placed[host] = (x + radius * math.cos(angle), y + radius * math.sin(angle))
    for number, name in enumerate(name for name in topology.nodes if name not in placed):
        placed[name] = (float(number), scale + 2)
    return placed


def _fan(centre: Position, count: int) -> list[float]:
    """Angles around a switch, the middle one away from the centre of the picture."""
    outwards = math.atan2(centre[1], centre[0])
    step = min(0.6, 2 * math.pi / max(1, count))
    return [outwards + step * (number - (count - 1) / 2) for number in range(count)]


def tier_numbers(topology: Topology) -> dict[str, int]:
    """The tier of every node: 0 for hosts, 1 for switches next to hosts, and so on."""
    return tier_of_nodes(topology)
