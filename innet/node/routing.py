"""Routes as faces: which face of a node leads to which other node."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from innet.topology import Link, Topology
from innet.topology.routes import Ends, Routes

NextHops = Mapping[str, Mapping[str, int]]
"""By node and destination, the index of the face towards the destination."""


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


def next_hops(
    topology: Topology, without: Collection[str] = (), cut: Collection[Ends] = ()
) -> NextHops:
    """The face towards every destination that can be reached, at every node.

    The paths are those of :class:`~innet.topology.routes.Routes`. They avoid the nodes ``without``,
    which have no next hops either, and the links that are ``cut``.
    """
    routes = Routes(topology, without, cut)
    hops: dict[str, dict[str, int]] = {}
    for node, ends in link_ends(topology).items():
        faces = {end.peer: face for face, end in enumerate(ends)}
        hops[node] = {
            destination: faces[routes.next_hop(node, destination)]
            for destination in topology.nodes
            if destination != node and routes.reaches(node, destination)
        }
    return hops
