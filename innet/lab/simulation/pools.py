"""Pools of blocks in a simulation: what a run's controller does for workers, here in no time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from innet.errors import SimulationError
from innet.kv.node_network import NodeBlockNetwork
from innet.kv.tenant import Tenant
from innet.lab.simulation.simulation import Simulation


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A host's membership; ``number`` tells it from all others."""

    capacity_bytes: int
    number: int


@dataclass(frozen=True, slots=True)
class _Served:
    """A tenant whose pool the switches serve: from its first member on, to the end."""

    tenant: Tenant
    weight: int


class SimulatedPools:
    """The pools of a simulation, and the hosts that are in them.

    A host that crashes is a member no longer, and starts again as none: it may join again once what
    it had of the pool is closed. Switches that start again serve the pools again.

    Example::

        with innet.Simulation(innet.load_topology("star:4"), seed=7) as sim:
            pools = SimulatedPools(sim)
            tenant = pools.tenant("acme")

            async def member(host):
                async with pools.open(host, tenant, capacity_bytes=1 << 20) as network:
                    ...                                    # a BlockPool over the network

            sim.run(*map(member, sim.topology.hosts))
    """

    def __init__(self, sim: Simulation) -> None:
        """``sim`` has the nodes; all of them serve the pools."""
        self._sim = sim
        self._tenants: dict[str, _Served] = {}
        self._members: dict[str, dict[str, _Part]] = {}
        self._opened = 0
        sim.on_restart(self._serve_again)

    def tenant(self, name: str) -> Tenant:
        """The tenant called so, with a secret that follows from the simulation's seed."""
        halves = (self._sim.network.number("kv", name, half) for half in range(3))
        return Tenant(name, b"".join(number.to_bytes(6, "big") for number in halves))

    @asynccontextmanager
    async def open(
        self, host: str, tenant: Tenant, *, capacity_bytes: int = 0, weight: int = 1
    ) -> AsyncIterator[NodeBlockNetwork]:
        """``host`` joins the tenant's pool, and leaves it at the end of the block.

        Args:
            host: of the simulation.
            tenant: whose blocks they are.
            capacity_bytes: of memory that the host offers to the others; 0: none.
            weight: the pool's part of the switches' memory; the first that is given counts.

        Raises:
            SimulationError: there is no such host, it has crashed, or is in the pool already.
        """
        simulated = self._sim.host(host)
        members = self._members.setdefault(tenant.component, {})
        if not self._sim.network.is_alive(host) or host in members:
            what = "is in the pool already" if host in members else "has crashed"
            raise SimulationError(f"{host} {what}, and cannot join the pool of {tenant.name}")
        self._opened += 1
        members[host] = part = _Part(capacity_bytes, self._opened)
        self._tenants.setdefault(tenant.component, _Served(tenant, weight))
        self._serve_all(tenant.component)

        async def ask_members() -> Mapping[str, int]:
            return self._offers(tenant.component)

        network = NodeBlockNetwork(
            host,
            simulated,
            tenant,
            ask_members,
            weight=weight,
            packet_bytes=self._sim.packet_bytes,
            first_nonce=self._sim.network.number("kv nonce", host, part.number),
        )
        try:
            await network.start()
            yield network
        finally:
            await network.stop()
            if members.get(host) is part:  # it may have crashed, and joined again
                del members[host]
                self._serve_all(tenant.component)

    def _serve_all(self, component: str) -> None:
        for switch in self._sim.topology.switches:
            self._serve(switch, component)

    def _serve(self, switch: str, component: str) -> None:
        network, served = self._sim.network, self._tenants[component]
        if network.is_alive(switch):
            keys, prefix = [served.tenant.verifying_key()], served.tenant.prefix
            network.nodes[switch].install_job(prefix, served.weight, None, keys)
            network.set_admission(switch, prefix, self._members[component].keys())

    def _serve_again(self, node: str) -> None:
        if node in self._sim.topology.switches:
            for component in self._tenants:
                self._serve(node, component)
        else:
            for members in self._members.values():
                members.pop(node, None)

    def _offers(self, tenant: str) -> dict[str, int]:
        return {
            host: part.capacity_bytes
            for host, part in self._members[tenant].items()
            if part.capacity_bytes and self._sim.network.is_alive(host)
        }
