"""One simulated host's part in the pool of a replay."""

from __future__ import annotations

import asyncio

from innet.kv.pool import BlockPool
from innet.kv.tenant import Tenant
from innet.lab.replay.contents import SyntheticContents
from innet.lab.replay.member import replay_pool
from innet.lab.replay.plan import ReplayPlan
from innet.lab.simulation.pools import SimulatedPools
from innet.lab.simulation.simulation import Simulation


class SimulatedMember:
    """A host in the pool: a crash takes all that it has, and it is there again with a restart.

    Attributes:
        opened: set once it is in the pool.
    """

    def __init__(
        self,
        sim: Simulation,
        pools: SimulatedPools,
        tenant: Tenant,
        host: str,
        plan: ReplayPlan,
        contents: SyntheticContents,
    ) -> None:
        """
        Args:
            sim: has the host.
            pools: of the simulation.
            tenant: whose pool it is.
            host: the host.
            plan: of the replay.
            contents: of the blocks.
        """
        self.opened = asyncio.Event()
        self._sim = sim
        self._pools = pools
        self._tenant = tenant
        self._host = host
        self._plan = plan
        self._contents = contents
        self._pool: BlockPool | None = None
        self._restarted = asyncio.Event()
        self._served_before = 0
        sim.on_restart(self._on_restart)

    @property
    def pool(self) -> BlockPool | None:
        """Its pool; ``None`` while the host is down."""
        return self._pool if self._sim.network.is_alive(self._host) else None

    @property
    def served(self) -> int:
        """How often it was asked for blocks that it has as their home."""
        return self._served_before + (0 if self._pool is None else self._pool.statistics().served)

    async def run(self) -> None:
        """Be in the pool until cancelled."""
        while True:
            async with (
                self._pools.open(
                    self._host, self._tenant, capacity_bytes=self._plan.offered_bytes(self._host)
                ) as network,
                replay_pool(network, self._plan, self._contents) as pool,
            ):
                self._pool = pool
                self.opened.set()
                await self._restarted.wait()
                self._restarted.clear()
                self._served_before = self.served
                self._pool = None

    def _on_restart(self, node: str) -> None:
        if node == self._host:
            self._restarted.set()
