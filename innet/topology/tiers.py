"""Levels of a network: hosts at the bottom, switches above by distance from the nearest host."""

from __future__ import annotations

import networkx as nx

from innet.topology.model import Topology


def tier_of_nodes(topology: Topology) -> dict[str, int]:
    """Tier of every node by its name: 0 for hosts, 1 for switches next to hosts, and so on."""
    layers = nx.bfs_layers(topology.graph(), list(topology.hosts))
    return {name: tier for tier, layer in enumerate(layers) for name in layer}


def tiers(topology: Topology) -> tuple[tuple[str, ...], ...]:
    """Names by tier: the hosts in rank order, then the switches of each tier in natural order.

    Example:
        >>> [len(tier) for tier in tiers(load_topology("fat-tree:4"))]
        [16, 8, 8, 4]
    """
    tier_of = tier_of_nodes(topology)
    names: list[list[str]] = [[] for _ in range(max(tier_of.values()) + 1)]
    for name in (*topology.hosts, *topology.switches):
        names[tier_of[name]].append(name)
    return tuple(map(tuple, names))


def is_tiered(topology: Topology) -> bool:
    """Whether the network is best seen as levels, as trees and Clos networks are.

    It is when the links within a tier form nothing but lines, as in a dumbbell.
    """
    lateral = lateral_links(topology)
    if lateral.number_of_nodes() == 0:
        return True
    return nx.is_forest(lateral) and max(degree for _, degree in lateral.degree()) <= 2


def lateral_links(topology: Topology) -> nx.Graph[str]:
    """The links that join two nodes of the same tier, as a graph of those nodes."""
    tier_of = tier_of_nodes(topology)
    lateral: nx.Graph[str] = nx.Graph()
    lateral.add_edges_from(
        link.nodes for link in topology.links if tier_of[link.a.node] == tier_of[link.b.node]
    )
    return lateral
