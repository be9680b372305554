"""Plans a topology for the kernel: names, addresses, routes.

Every machine gets a network namespace, which a host's workers share; every link between machines is
a veth pair whose ends are named after the link's ports. The addresses are the same in each run, for
namespaces of different runs never meet:

* link number k has the two addresses of a /31, ``10.128.0.0 + 2k`` at its first node;
* host number i (in the order of ranks) has the stable address ``10.0.0.0 + i + 1``, on its loopback
  interface, and routes lead to it from everywhere, so foreign programs need no knowledge of links.

Neighbours are static: an ARP request that waits behind a full queue would stall a link, and no
unsolicited packet must disturb a measurement.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address

from innet.cluster.emulation.kernel_network import (
    InterfaceSpec,
    IpRoute,
    KernelNetwork,
    NamespaceSpec,
    TokenBucket,
    VethSpec,
)
from innet.node.routing import NextHops, link_ends
from innet.topology import Link, Topology

_HOST_ADDRESSES = "10.0.0.0/9"
_FIRST_HOST_ADDRESS = IPv4Address("10.0.0.1")
_FIRST_LINK_ADDRESS = IPv4Address("10.128.0.0")


def lay_out(topology: Topology, hops: NextHops) -> KernelNetwork:
    """Lay out a topology for the kernel, with packets for the hosts on the given next hops."""
    veths = tuple(
        _veth(number, link) for number, link in enumerate(topology.links) if not link.in_memory
    )
    addresses = host_addresses(topology)
    gateways = _gateways(veths)
    ends = link_ends(topology)
    namespaces = []
    for node in topology.nodes:
        if topology.role_of(node) == "worker":
            continue
        uplinks = [face for face, end in enumerate(ends[node]) if not end.link.in_memory]
        if node in addresses and len(uplinks) <= 1:
            face_towards = {_HOST_ADDRESSES: uplinks[0]} if uplinks else {}
        else:
            face_towards = {
                f"{addresses[host]}/32": hops[node][host]
                for host in addresses
                if host in hops[node]
            }
        routes = tuple(
            IpRoute(
                destination=prefix,
                gateway=gateways[(node, ends[node][face].port)],
                interface=ends[node][face].port,
            )
            for prefix, face in face_towards.items()
        )
        namespaces.append(
            NamespaceSpec(
                node=node,
                address=addresses.get(node),
                forwards=topology.role_of(node) == "switch",
                routes=routes,
            )
        )
    return KernelNetwork(namespaces=tuple(namespaces), veths=veths)


def host_addresses(topology: Topology) -> dict[str, str]:
    """The stable address of each host; its workers have none of their own."""
    return {host: str(_FIRST_HOST_ADDRESS + i) for i, host in enumerate(topology.machines)}


def link_addresses(number: int) -> tuple[tuple[str, str], tuple[str, str]]:
    """MAC and IP address of both ends of the topology's link ``number``."""
    first, second = 2 * number, 2 * number + 1
    return (
        (_mac(first), str(_FIRST_LINK_ADDRESS + first)),
        (_mac(second), str(_FIRST_LINK_ADDRESS + second)),
    )


def _veth(number: int, link: Link) -> VethSpec:
    a, b = (
        InterfaceSpec(node=end.node, name=end.port, mac=mac, address=address)
        for end, (mac, address) in zip((link.a, link.b), link_addresses(number), strict=True)
    )
    return VethSpec(a=a, b=b, mtu_bytes=link.mtu_bytes, shaper=TokenBucket.for_link(link))


def _mac(number: int) -> str:
    """A locally administered unicast address (IEEE 802: the 02 in the first octet)."""
    return "02:00:" + number.to_bytes(4, "big").hex(":")


def _gateways(veths: tuple[VethSpec, ...]) -> Mapping[tuple[str, str], str]:
    """The address behind each interface, by node and interface name."""
    gateways = {}
    for veth in veths:
        gateways[(veth.a.node, veth.a.name)] = veth.b.address
        gateways[(veth.b.node, veth.b.name)] = veth.a.address
    return gateways
