"""The links of a capture, and the node at which each is captured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from innet.cluster.emulation.kernel_layout import link_addresses
from innet.observe.packets.capture.headers import EndAddress
from innet.topology import Link, Topology
from innet.topology.link_choice import links_at


class DirectedPort(NamedTuple):
    """A link, seen from the node at which it is captured."""

    node: str
    port: str
    peer: str
    face: int
    """Which of the node's faces it is."""
    address: EndAddress
    peer_address: EndAddress

    @property
    def sent(self) -> str:
        """The direction away from the node."""
        return f"{self.node}->{self.peer}"

    @property
    def received(self) -> str:
        """The direction towards the node."""
        return f"{self.peer}->{self.node}"


def chosen_links(topology: Topology, places: Sequence[str]) -> list[DirectedPort]:
    """The links that ``places`` name (all without any), each at the end where a switch is.

    Args:
        topology: of the run.
        places: nodes, whose links all count, and links such as ``h0--s0``.

    Raises:
        TopologyError: there is no such node or link.
    """
    wanted = set(links_at(topology, places)) if places else {link.nodes for link in topology.links}
    faces: dict[str, int] = dict.fromkeys(topology.nodes, 0)
    chosen = []
    for number, link in enumerate(topology.links):
        if link.nodes in wanted:
            chosen.append(_watched(topology, link, number, faces))
        for node in link.nodes:
            faces[node] += 1
    return chosen


def _watched(topology: Topology, link: Link, number: int, faces: dict[str, int]) -> DirectedPort:
    """Switches run as long as the network does; a host's node is there while its program is."""
    node = next((n for n in link.nodes if topology.nodes[n].kind == "switch"), link.nodes[0])
    near, far = link.end_at(node), link.end_opposite(node)
    a, b = (EndAddress(mac, ip) for mac, ip in link_addresses(number))
    mine, other = (a, b) if near is link.a else (b, a)
    return DirectedPort(node, near.port, far.node, faces[node], mine, other)
