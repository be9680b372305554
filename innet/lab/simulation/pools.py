"""Pools of blocks in a simulation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from functools import cache

from innet.errors import SimulationError
from innet.kv.node_network import NetworkOptions, NodeBlockNetwork
from innet.kv.tenant import Tenant
from innet.lab.simulation.simulation import Simulation
from innet.node.messages import PoolReport
from innet.topology.routes import Routes


class SimulatedPools:
    """The pools of a simulation, and their members.

    A crashed host is no longer a member. After its restart it may join again, once its former
    network is closed. Restarted switches serve the pools again.

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
        """All nodes of ``sim`` serve the pools."""
        self._sim = sim
        self._registry = sim.control.pools
        self._routes = Routes(sim.topology)
        self._opened = 0
        self._numbers: dict[tuple[str, str], int] = {}
        """The number of the last membership, by host and tenant."""

    def tenant(self, name: str) -> Tenant:
        """The tenant ``name``, with a secret that follows from the simulation's seed."""
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
            capacity_bytes: memory that the host offers to the others; 0: none.
            weight: the pool's share of the switches' memory; the members' largest counts.

        Raises:
            SimulationError: there is no such host, it has crashed, or is in the pool already.
        """
        simulated = self._sim.host(host)
        is_member = host in self._hosts_in(tenant)
        if not self._sim.network.is_alive(host) or is_member:
            what = "is in the pool already" if is_member else "has crashed"
            raise SimulationError(f"{host} {what}, and cannot join the pool of {tenant.name}")
        self._opened += 1
        number = self._numbers[host, tenant.component] = self._opened
        part = PoolReport(
            tenant=tenant.component,
            key=tenant.public_key,
            capacity_bytes=capacity_bytes,
            weight=weight,
        )
        self._sim.control.run(self._registry.open(host, part))

        async def ask_members() -> Mapping[str, int]:
            return self._registry.members(tenant.component)

        network = NodeBlockNetwork(
            host,
            simulated,
            tenant,
            ask_members,
            NetworkOptions(
                weight=weight,
                packet_bytes=self._sim.packet_bytes,
                process=self._sim.network.number("kv process", host, number),
                distance=cache(lambda member: self._routes.distance(host, member)),
                neighbours=frozenset(self._sim.topology.links_of[host]),
            ),
        )
        try:
            await network.start()
            yield network
        finally:
            await network.stop()
            if self._numbers[host, tenant.component] == number:  # unless the host has joined again
                self._sim.control.run(self._registry.leave(host, tenant.component))

    def _hosts_in(self, tenant: Tenant) -> Collection[str]:
        for pool in self._registry.describe():
            if pool["tenant"] == tenant.component:
                members: Mapping[str, int] = pool["members"]
                return members.keys()
        return ()
