"""The links of the nodes of one machine, in ``cluster`` mode.

Between two nodes of the machine they are those of ``local`` mode. A link to a node of another
machine is a UDP socket that this process opens, connects and holds. A restarted node gets the same
socket. When the other machine returns at another address, this process connects the socket again.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Mapping
from ipaddress import ip_address, ip_network

import psutil

from innet.cluster.emulation.kernel_network import KernelCounters, LinkDirection
from innet.cluster.emulation.local_fabric import Fabric, family_of, open_channels
from innet.cluster.emulation.path_mtu import drain, forbid_fragments, probed
from innet.cluster.emulation.syscalls import take_all_descriptors
from innet.errors import EmulationError
from innet.node.node_config import IP_UDP_HEADER_BYTES, LinkShape, SocketChannel
from innet.topology import Link, Topology

SocketName = tuple[str, int]
"""A numeric address and a port."""


def links_between_machines(topology: Topology) -> dict[int, Link]:
    """The links whose ends are on two machines, by their numbers in the topology."""
    placement = topology.placement
    return {
        number: link
        for number, link in enumerate(topology.links)
        if placement[link.a.node] != placement[link.b.node]
    }


class MachineFabric(Fabric):
    """The links of the nodes of ``machine``.

    Call :meth:`connect`, :meth:`probe` and :meth:`configure` in this order; the last one creates
    the node's faces.

    Attributes:
        addresses: of the machines that are known here, by their names.
    """

    def __init__(
        self, topology: Topology, machine: str, address: str, *, shared_memory: bool = True
    ) -> None:
        """Open all links, at ports that the system chooses.

        Args:
            topology: the network.
            machine: whose links they are.
            address: of the machine, for links without a subnet.
            shared_memory: within the machine; ``False``: Unix sockets.
        """
        super().__init__(topology)
        self._machine = machine
        self._address = address
        self.addresses = {machine: address}
        self._sockets: dict[int, socket.socket] = {}
        take_all_descriptors()
        with self._opened:
            self._inside = {
                number: open_channels(link, self._opened, shared_memory=shared_memory)
                for number, link in enumerate(topology.links)
                if all(self._is_here(node) for node in link.nodes)
            }
            for number, link in links_between_machines(topology).items():
                if any(self._is_here(node) for node in link.nodes):
                    self._sockets[number] = self._bound(link)
            self._opened = self._opened.pop_all()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes of the machine, in the order of the topology."""
        return self._topology.nodes_placed_on(self._machine)

    @property
    def sockets(self) -> dict[int, SocketName]:
        """The sockets of the links to other machines, by the links' numbers."""
        names = {number: link.getsockname() for number, link in self._sockets.items()}
        return {number: (str(name[0]), int(name[1])) for number, name in names.items()}

    def ip_address(self, node: str) -> str | None:
        """The address of the node's machine, where it is known."""
        return self.addresses.get(self._topology.placement[node])

    def connect(self, peers: Mapping[int, SocketName]) -> None:
        """Connect links to the sockets at their other ends, also anew."""
        for number, peer in peers.items():
            link = self._sockets[number]
            try:
                link.connect(peer)
            except OSError as error:
                raise EmulationError(
                    f"machine {self._machine} has no route to {peer[0]}, the address of the other "
                    f"end of link {self._topology.links[number]}: {error.strerror}. Let the "
                    "machines join by addresses at which they reach each other."
                ) from error

    async def probe(self) -> dict[int, int]:
        """The largest datagram that arrived over each link; both ends probe at the same time."""
        return await probed(self._sockets)

    def configure(self, datagram_bytes: Mapping[int, int]) -> None:
        """Make the faces of the nodes, given the largest datagram of each link to another machine.

        Packets that arrived before are dropped.
        """
        for faces in self._faces.values():
            faces.clear()
        for number, link in enumerate(self._topology.links):
            if (channels := self._inside.get(number)) is not None:
                self._add_link(link, channels)
            elif (held := self._sockets.get(number)) is not None:
                drain(held)
                self._add_udp_face(link, held, datagram_bytes[number])

    async def counters(self, nodes: Collection[str]) -> dict[LinkDirection, KernelCounters]:
        """Not available: the machine's interfaces carry other traffic, too."""
        raise EmulationError(
            "the kernel does not count the links of cluster mode. Ask the nodes for the counters "
            "of their faces."
        )

    async def close(self) -> None:
        """Close this process's copies of the descriptors."""
        self._opened.close()

    def _is_here(self, node: str) -> bool:
        return self._topology.placement[node] == self._machine

    def _bound(self, link: Link) -> socket.socket:
        address = self._address if link.subnet is None else self._address_in(link.subnet, link)
        try:
            opened = socket.socket(family_of(address), socket.SOCK_DGRAM)
            self._opened.enter_context(opened)
            opened.setblocking(False)
            forbid_fragments(opened)
            opened.bind((address, 0))
        except OSError as error:
            raise EmulationError(
                f"machine {self._machine} cannot open link {link} at {address}: "
                f"{error.strerror}. Is this an address of the machine?"
            ) from error
        return opened

    def _address_in(self, subnet: str, link: Link) -> str:
        network = ip_network(subnet)
        found = [
            address.address
            for addresses in psutil.net_if_addrs().values()
            for address in addresses
            if address.family in (socket.AF_INET, socket.AF_INET6)
            and ip_address(address.address.partition("%")[0]) in network
        ]
        if not found:
            raise EmulationError(
                f"machine {self._machine} has no address in {subnet}, the subnet of link {link}. "
                "Give it one there, or correct the subnet in the topology"
            )
        return found[0]

    def _add_udp_face(self, link: Link, held: socket.socket, datagram_bytes: int) -> None:
        near, far = (link.a, link.b) if self._is_here(link.a.node) else (link.b, link.a)
        channel = SocketChannel(fd=held.fileno(), inode=os.fstat(held.fileno()).st_ino)
        self._add_face(
            link, near.node, channel, LinkShape.of(link), far.node, datagram_bytes=datagram_bytes
        )


def with_discovered_mtus(topology: Topology, datagram_bytes: Mapping[int, int]) -> Topology:
    """A copy in which links between machines have the MTU of an IPv4 path with such datagrams."""
    links = tuple(
        link
        if number not in datagram_bytes
        else Link(**(link.given | {"mtu_bytes": datagram_bytes[number] + IP_UDP_HEADER_BYTES}))
        for number, link in enumerate(topology.links)
    )
    return topology.model_copy(update={"links": links})
