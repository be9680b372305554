"""The links between the machines of a ``cluster`` network, as the launcher sets them up.

All machines first open their links, then connect them, and probe the largest datagrams. When a
machine returns, its neighbours connect their links to its new sockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from innet.cluster.emulation.local_fabric import family_of
from innet.cluster.emulation.machine_fabric import (
    MachineFabric,
    SocketName,
    links_between_machines,
    with_discovered_mtus,
)
from innet.cluster.machines.addresses import Address
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
        replies = await _all(map(self.open, machines))
        fabric = self._opened_here(replies)
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

    async def open(self, machine: RemoteMachine) -> OpenReply:
        """Let a machine open its links."""
        reply = await machine.open(
            OpenRequest(
                topology=self.topology.model_dump_json(),
                seed=self._seed,
                shared_memory=self._shared_memory,
            )
        )
        self.take(machine.name, reply.address, reply.sockets)
        return reply

    def take(self, machine: str, address: str, sockets: Mapping[int, SocketName]) -> None:
        """Take where a machine has opened its links."""
        self.addresses[machine] = address
        for number, name in sockets.items():
            self._sockets[machine, number] = name

    def _opened_here(self, replies: Sequence[OpenReply]) -> MachineFabric:
        is_every = self._listening.is_every
        address = replies[0].launcher_address if is_every else self._listening.host
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
        return (await machine.connect(request)).received_bytes

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


async def _all(work: Iterable[Awaitable[_Result]]) -> list[_Result]:
    """All results, when all work is done; the first error, if there is one."""
    results = await asyncio.gather(*work, return_exceptions=True)
    found: list[_Result] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        found.append(result)
    return found
