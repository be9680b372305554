"""Shortest-path next hops from every node to every other node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import networkx as nx

if TYPE_CHECKING:
    from innet.topology import Link, Topology

# Costs are whole numbers, so that equal paths compare equal: nanoseconds of delay above the
# number of hops, and above both the hosts on the way, which are never transit by choice.
_HOP_COST = 1
_NANOSECOND_COST = 1 << 20
_HOST_TRANSIT_COST = 1 << 80

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
    """Next hops by shortest path: by delay, then by hops; through hosts only if there is no other.

    Destinations behind paths of equal cost are dealt out over them in turn, the same way for each
    run (D-mod-K routing: Zahavi, "D-Mod-K routing providing non-blocking traffic for shift
    permutations on real life fat trees", 2010), so the uplinks of a fat tree share the load.
    """
    ends = link_ends(topology)
    kinds = {name: node.kind for name, node in topology.nodes.items()}
    hops: dict[str, dict[str, int]] = {name: {} for name in topology.nodes}
    for number, destination in enumerate((*topology.hosts, *topology.switches)):
        costs = _costs_to(topology, kinds, destination)
        for node in topology.nodes:
            if node != destination:
                equal = [
                    face
                    for face, end in enumerate(ends[node])
                    if costs[end.peer] + _step_cost(kinds, end.link, end.peer, destination)
                    == costs[node]
                ]
                hops[node][destination] = equal[number % len(equal)]
    return hops


def _costs_to(topology: Topology, kinds: Mapping[str, str], destination: str) -> dict[str, int]:
    def step(nearer: str, _farther: str, attributes: Mapping[str, Any]) -> int:
        return _step_cost(kinds, attributes["link"], nearer, destination)

    costs = nx.single_source_dijkstra_path_length(topology.graph(), destination, weight=step)
    return {node: int(cost) for node, cost in costs.items()}


def _step_cost(kinds: Mapping[str, str], link: Link, via: str, destination: str) -> int:
    cost = round(link.delay_s * 1e9) * _NANOSECOND_COST + _HOP_COST
    if via != destination and kinds[via] == "host":
        cost += _HOST_TRANSIT_COST
    return cost
