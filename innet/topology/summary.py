"""Short descriptions of a topology and its links, and its levels, shared by text and picture."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from innet.quantities import counted, format_duration, format_probability, format_rate
from innet.topology.model import Topology
from innet.topology.parts import Link
from innet.topology.settings import UNLIMITED

if TYPE_CHECKING:
    import networkx as nx

MEMORY: Final = "memory"
"""Shown in place of the rate of a link within a host."""


def counts(topology: Topology) -> str:
    """``8 hosts, 1 switch, 8 links``, or ``2 hosts with 16 workers, 1 switch, 2 links``."""
    hosts = counted(len(topology.machines), "host")
    if topology.workers_of:
        hosts += f" with {counted(len(topology.hosts), 'worker')}"
    return ", ".join(
        (
            hosts,
            counted(len(topology.separate_switches), "switch", "switches"),
            counted(sum(not link.in_memory for link in topology.links), "link"),
        )
    )


def rate_text(link: Link) -> str:
    """``200mbit``, ``unlimited``, ``memory`` or ``memory 128gbit``."""
    if link.in_memory:
        return MEMORY if link.rate_bps is None else f"{MEMORY} {format_rate(link.rate_bps)}"
    return UNLIMITED if link.rate_bps is None else format_rate(link.rate_bps)


def link_label(link: Link) -> str:
    """Limits and impairments of a link: ``50mbit 2.8ms 1% loss``, ``unlimited``, or ``memory``."""
    if link.in_memory:
        return rate_text(link)
    limits_delay_only = link.rate_bps is None and link.delay_s
    parts = [] if limits_delay_only else [rate_text(link)]
    if link.delay_s:
        parts.append(format_duration(link.delay_s))
    if link.loss:
        parts.append(f"{format_probability(link.loss)} loss")
    parts += impairments(link)
    return " ".join(parts)


def impairments(link: Link) -> list[str]:
    """Impairments other than delay and loss: ``["1% duplicated"]``."""
    parts = []
    if link.jitter_s:
        parts.append(f"{format_duration(link.jitter_s)} jitter")
    shares = {"reordered": link.reorder, "duplicated": link.duplicate, "corrupted": link.corrupt}
    parts += (f"{format_probability(p)} {verb}" for verb, p in shares.items() if p)
    return parts


def usual_link_label(topology: Topology) -> str | None:
    """The label that most links have, or ``None`` without links; those in memory do not count."""
    labels = Counter(link_label(link) for link in topology.links if not link.in_memory)
    return labels.most_common(1)[0][0] if labels else None


def tier_of_nodes(topology: Topology) -> dict[str, int]:
    """Tier of every node by its name: 0 for hosts, 1 for switches next to hosts, and so on."""
    import networkx as nx  # imported only where a graph is needed

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
    import networkx as nx

    lateral = lateral_links(topology)
    if lateral.number_of_nodes() == 0:
        return True
    return nx.is_forest(lateral) and max(degree for _, degree in lateral.degree()) <= 2


def lateral_links(topology: Topology) -> nx.Graph[str]:
    """The links that join two nodes of the same tier, as a graph of those nodes."""
    import networkx as nx

    tier_of = tier_of_nodes(topology)
    lateral: nx.Graph[str] = nx.Graph()
    lateral.add_edges_from(
        link.nodes for link in topology.links if tier_of[link.a.node] == tier_of[link.b.node]
    )
    return lateral
