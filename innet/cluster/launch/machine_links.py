"""The links between the machines of a ``cluster`` network, as the launcher sets them up.

All machines first open their links, then connect them, and probe the largest datagrams. When a
machine returns, its neighbours connect their links to its new sockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Final, TypeVar

from innet.cluster.emulation.local_fabric import family_of
from innet.cluster.emulation.machine_fabric import (
    MachineFabric,
    SocketName,
    links_between_machines,
    with_discovered_mtus,
)
from innet.cluster.machines.addresses import Address, address_towards, is_of_this_machine
from innet.cluster.machines.commands import (
    ConfigureRequest,
    ConnectRequest,
    OpenReply,
    OpenRequest,
)
from innet.cluster.machines.remote import RemoteMachine
from innet.errors import EmulationError
from innet.topology import Topology
from innet.topology.model import LAUNCHER_MACHINE

_ANY_PORT: Final = 9
"""Nothing is sent there."""

_Result = TypeVar("_Result")


class MachineLinks:
    """The links of all machines.

    Attributes:
        topology: with the MTUs that were found, once the links are set up.
        fabric: the launcher's own part; ``None`` until the links are set up.
        addresses: of the machines, by their names.
    """

    def __init__(
        self, topology: Topology, listening: Address, *, seed: int, shared_memory: bool
    ) -> None:
        """``listening``: where the launcher listens; its links have the same address."""
        self.topology = topology
        self.fabric: MachineFabric | None = None
        self.addresses: dict[str, str] = {}
        self._listening = listening
        self._seed = seed
        self._shared_memory = shared_memory
        self._sockets: dict[tuple[str, int], SocketName] = {}
        self._datagram_bytes: dict[int, int] = {}

    async def set_up(self, machines: Collection[RemoteMachine]) -> MachineFabric:
        """Set up the links of all machines; returns the launcher's part.

        Raises:
            EmulationError: that is not possible, or a machine was lost meanwhile.
        """
        await _all(map(self.open, machines))
        fabric = self._opened_here(machines)
        try:
            await self._connect_all(fabric, machines)
            for machine in machines:
                if machine.lost_because:
                    raise EmulationError(machine.lost_because)
        except BaseException:
            await fabric.close()
            raise
        self.fabric = fabric
        self.topology = with_discovered_mtus(self.topology, self._datagram_bytes)
        return fabric

    async def reconnect(
        self, machine: RemoteMachine, neighbours: Collection[RemoteMachine]
    ) -> None:
        """Set up the links of a machine that has returned."""
        assert self.fabric is not None, "set_up() comes first"
        name = machine.name
        await self.open(machine)
        await machine.connect(ConnectRequest(peers=self._peers_of(name), probes=False))
        self.fabric.connect(self._peers_of(LAUNCHER_MACHINE, [name]))
        await asyncio.gather(*(self._lead(other, name) for other in neighbours))
        await self._configure(machine)

    async def open(self, machine: RemoteMachine) -> None:
        """Let a machine open its links.

        Raises:
            EmulationError: it does not, or names sockets that are not its own.
        """
        reply = await machine.open(
            OpenRequest(
                topology=self.topology.model_dump_json(),
                seed=self._seed,
                shared_memory=self._shared_memory,
            )
        )
        self._require_own(machine, reply)
        self.take(machine.name, reply.address, reply.sockets)

    def _require_own(self, machine: RemoteMachine, reply: OpenReply) -> None:
        """Check the addresses that other machines will send to.

        A machine is reached where it has joined from, or in the subnet that the topology gives a
        link: there, at an address that no other machine has, and that it keeps.
        """
        if reply.sockets.keys() != self._numbers_of(machine.name):
            raise EmulationError(f"machine {machine.name} has opened other links than its own")
        _require_address(machine, reply.address)
        for number, (address, _) in reply.sockets.items():
            subnet = self.topology.links[number].subnet
            if subnet is None or ip_address(address) == ip_address(machine.address):
                _require_address(machine, address)
                continue
            before = self._sockets.get((machine.name, number), (address, 0))[0]
            owners = {name for (name, _), (taken, _) in self._sockets.items() if taken == address}
            if (
                "%" in address  # an interface of this machine: the rest is compared without it
                or ip_address(address) not in ip_network(subnet)
                or before != address
                or owners - {machine.name}
                or is_of_this_machine(address)
            ):
                raise EmulationError(
                    f"machine {machine.name} has opened link {self.topology.links[number]} at "
                    f"{address}; expected an address of its own in {subnet}, the same until the "
                    "network is taken down"
                )

    def _numbers_of(self, machine: str) -> set[int]:
        """The links of a machine to others."""
        placement = self.topology.placement
        between = links_between_machines(self.topology).items()
        return {n for n, link in between if machine in {placement[node] for node in link.nodes}}

    def take(self, machine: str, address: str, sockets: Mapping[int, SocketName]) -> None:
        """Take where a machine has opened its links."""
        self.addresses[machine] = address
        for number, name in sockets.items():
            self._sockets[machine, number] = name

    def _opened_here(self, machines: Collection[RemoteMachine]) -> MachineFabric:
        address = self._listening.host
        if self._listening.is_every:
            first = next(iter(machines))
            try:
                address = address_towards(Address(first.address, _ANY_PORT))
            except OSError as error:
                raise EmulationError(
                    f"no route leads to machine {first.name} at {first.address}: {error.strerror}"
                ) from error
        fabric = MachineFabric(
            self.topology, LAUNCHER_MACHINE, address, shared_memory=self._shared_memory
        )
        self.take(LAUNCHER_MACHINE, address, fabric.sockets)
        fabric.addresses = self.addresses
        return fabric

    async def _connect_all(
        self, fabric: MachineFabric, machines: Collection[RemoteMachine]
    ) -> None:
        """Connect all links, and find out how large their datagrams may be."""
        self._require_one_family()
        fabric.connect(self._peers_of(LAUNCHER_MACHINE))
        self._take_sizes(await _all([fabric.probe(), *map(self._connected, machines)]))
        fabric.configure(self._datagram_bytes)
        await _all(map(self._configure, machines))

    def _require_one_family(self) -> None:
        families = {machine: family_of(a) for machine, a in self.addresses.items()}
        if len(set(families.values())) > 1:
            addresses = ", ".join(f"{m} {address}" for m, address in self.addresses.items())
            raise EmulationError(
                f"some machines have joined over IPv4, others over IPv6: {addresses}. Let all join "
                "by addresses of one kind"
            )

    async def _connected(self, machine: RemoteMachine) -> dict[int, int]:
        """Connect a machine's links; returns the largest datagram that came over each."""
        request = ConnectRequest(peers=self._peers_of(machine.name))
        received = (await machine.connect(request)).received_bytes
        if received.keys() != self._numbers_of(machine.name):
            raise EmulationError(f"machine {machine.name} has probed other links than its own")
        return received

    async def _configure(self, machine: RemoteMachine) -> None:
        await machine.configure(ConfigureRequest(datagram_bytes=self._datagram_bytes))

    async def _lead(self, other: RemoteMachine, name: str) -> None:
        """Connect a neighbour's links to the new sockets of a machine."""
        peers = self._peers_of(other.name, [name])
        if not peers:
            return
        try:
            await other.connect(ConnectRequest(peers=peers, probes=False))
        except EmulationError:
            if not other.lost_because:  # a lost one connects when it comes back
                raise

    def _peers_of(
        self, machine: str, others: Collection[str] | None = None
    ) -> dict[int, SocketName]:
        """The other ends of a machine's links, by the links' numbers; to ``others`` alone."""
        placement = self.topology.placement
        peers: dict[int, SocketName] = {}
        for number, link in links_between_machines(self.topology).items():
            ends = [placement[node] for node in link.nodes]
            if machine in ends:
                other = ends[1] if ends[0] == machine else ends[0]
                if others is None or other in others:
                    peers[number] = self._sockets[other, number]
        return peers

    def _take_sizes(self, received: Sequence[Mapping[int, int]]) -> None:
        """Take the largest datagram of each link, which passed in both directions."""
        for number, link in links_between_machines(self.topology).items():
            sizes = [sizes[number] for sizes in received if number in sizes]
            if not all(sizes):
                a, b = (self.topology.placement[node] for node in link.nodes)
                (at_a, port_a), (at_b, port_b) = self._sockets[a, number], self._sockets[b, number]
                raise EmulationError(
                    f"no UDP datagram passes between machine {a} ({at_a}, port {port_a}) and "
                    f"machine {b} ({at_b}, port {port_b}), for link {link}. Let firewalls pass UDP "
                    "between the machines"
                )
            self._datagram_bytes[number] = min(sizes)


def _require_address(machine: RemoteMachine, address: str) -> None:
    if ip_address(address) != ip_address(machine.address):
        raise EmulationError(
            f"machine {machine.name} wants to be reached at {address}, and has joined from "
            f"{machine.address}. Let it join without translation of addresses, or give its links "
            "a subnet in the topology"
        )


async def _all(work: Iterable[Awaitable[_Result]]) -> list[_Result]:
    """All results, when all work is done; the first error, if there is one."""
    results = await asyncio.gather(*work, return_exceptions=True)
    found: list[_Result] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        found.append(result)
    return found
