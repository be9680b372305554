"""Shortest-path next hops from every node to every other node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import networkx as nx

from innet.topology import Link, Topology

# Costs are whole numbers, so that equal paths compare equal: nanoseconds above hops.
_HOP_COST = 1
_NANOSECOND_COST = 1 << 20

NextHops = Mapping[str, Mapping[str, int]]
"""For each node, from each other node's name to the index of the face towards it."""


@dataclass(frozen=True)
class LinkEnd:
    """One end of a link as seen from its node."""

    link: Link
    node: str
    port: str
    peer: str
    peer_port: str


def link_ends(topology: Topology) -> dict[str, tuple[LinkEnd, ...]]:
    """The link ends of each node, in the order of the topology's links.

    The position of a link end is the index of its face in the node's configuration.
    """
    ends: dict[str, list[LinkEnd]] = {name: [] for name in topology.nodes}
    for link in topology.links:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            ends[near.node].append(LinkEnd(link, near.node, near.port, far.node, far.port))
    return {name: tuple(of_node) for name, of_node in ends.items()}


def next_hops(topology: Topology) -> NextHops:
    """Next hops by shortest path: by delay, then by hops.

    Destinations behind paths of equal cost are dealt out over them in turn, the same way for each
    run (D-mod-K routing: Zahavi, "D-Mod-K routing providing non-blocking traffic for shift
    permutations on real life fat trees", 2010), so the uplinks of a fat tree share the load.
    """
    ends = link_ends(topology)
    hops: dict[str, dict[str, int]] = {name: {} for name in topology.nodes}
    for number, destination in enumerate((*topology.hosts, *topology.switches)):
        costs = nx.single_source_dijkstra_path_length(
            topology.graph(), destination, weight=lambda _u, _v, edge: _cost(edge["link"])
        )
        for node in topology.nodes:
            if node != destination:
                equal = [
                    face
                    for face, end in enumerate(ends[node])
                    if costs[end.peer] + _cost(end.link) == costs[node]
                ]
                hops[node][destination] = equal[number % len(equal)]
    return hops


def _cost(link: Link) -> int:
    return round(link.delay_s * 1e9) * _NANOSECOND_COST + _HOP_COST
