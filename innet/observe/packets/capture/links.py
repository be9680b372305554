"""The links of a capture: where each is captured, and the headers around its packets."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from ipaddress import IPv4Address
from typing import NamedTuple

from innet.cluster.emulation.kernel_layout import link_addresses
from innet.errors import TopologyError
from innet.node.node_config import Mode
from innet.tlv_numbers import NDN_PORT
from innet.topology import Link, Topology
from innet.topology.link_choice import links_at


class DirectedPort(NamedTuple):
    """A link, seen from the node at which it is captured."""

    node: str
    port: str
    peer: str
    face: int
    """The index of the node's face."""
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


def chosen_links(
    topology: Topology, places: Sequence[str], mode: Mode = "local"
) -> list[DirectedPort]:
    """The links that ``places`` name (all without any), each at the end where a switch is.

    Args:
        places: nodes, whose links all count, and links such as ``h0--s0``.
        mode: in netns mode, the kernel captures; it sees no links within a host.

    Raises:
        TopologyError: none of these links can be captured.
    """
    wanted = set(links_at(topology, places)) if places else {link.nodes for link in topology.links}
    faces: dict[str, int] = dict.fromkeys(topology.nodes, 0)
    chosen = []
    for number, link in enumerate(topology.links):
        if link.nodes in wanted and not (link.in_memory and mode == "netns"):
            chosen.append(_watched(topology, link, number, faces))
        for node in link.nodes:
            faces[node] += 1
    if places and not chosen:
        raise TopologyError(
            f"{', '.join(places)}: packets within a host pass through memory in netns mode, where "
            "they cannot be captured. Capture at the host or at a switch, or run in local mode."
        )
    return chosen


def _watched(topology: Topology, link: Link, number: int, faces: dict[str, int]) -> DirectedPort:
    """Switches run as long as the network does; a host's node is there while its program is."""
    node = next((n for n in link.nodes if topology.nodes[n].kind == "switch"), link.nodes[0])
    near, far = link.end_at(node), link.end_opposite(node)
    a, b = (EndAddress(mac, ip) for mac, ip in link_addresses(number))
    mine, other = (a, b) if near is link.a else (b, a)
    return DirectedPort(node, near.port, far.node, faces[node], mine, other)


_IPV4 = 0x0800
_UDP = 17
_DONT_FRAGMENT = 0x4000
_TTL = 64
ETHERNET_BYTES = 14
IP_BYTES = 20
UDP_BYTES = 8


class EndAddress(NamedTuple):
    """The addresses of one end of a link."""

    mac: str
    ip: str


def udp_frame(source: EndAddress, destination: EndAddress, payload: bytes) -> bytes:
    """``payload`` in a datagram between port 6363 of both ends, as netns mode has it on its links.

    The check sum of UDP is 0 (none), as IPv4 allows.
    """
    udp_bytes = UDP_BYTES + len(payload)
    return (
        _mac_bytes(destination.mac)
        + _mac_bytes(source.mac)
        + struct.pack("!H", _IPV4)
        + ip_header(source.ip, destination.ip, udp_bytes)
        + struct.pack("!HHHH", NDN_PORT, NDN_PORT, udp_bytes, 0)
        + payload
    )


def ip_header(source: str, destination: str, payload_bytes: int) -> bytes:
    """An IPv4 header for UDP, with its check sum."""
    header = struct.pack(
        "!BBHHHBBH4s4s",
        0x45,
        0,
        IP_BYTES + payload_bytes,
        0,
        _DONT_FRAGMENT,
        _TTL,
        _UDP,
        0,
        IPv4Address(source).packed,
        IPv4Address(destination).packed,
    )
    return with_ip_checksum(header)


def with_ip_checksum(header: bytes) -> bytes:
    """An IPv4 header whose check sum is right (RFC 791)."""
    bare = header[:10] + b"\0\0" + header[12:]
    total = sum(struct.unpack(f"!{len(bare) // 2}H", bare))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return bare[:10] + struct.pack("!H", ~total & 0xFFFF) + bare[12:]


def _mac_bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))
