"""The parts of a pool at one node, and how they fit together."""

from __future__ import annotations

import asyncio

from innet.kv.pool.asker import Asker
from innet.kv.pool.finding import Finder
from innet.kv.pool.giving import Giver
from innet.kv.pool.holdings import Holdings
from innet.kv.pool.home import Home
from innet.kv.pool.intake import Intake
from innet.kv.pool.members import Members
from innet.kv.pool.network import BlockNetwork
from innet.kv.pool.notes import Notes
from innet.kv.pool.offered_store import OfferedStore
from innet.kv.pool.pinning import Pinning
from innet.kv.pool.publications import Publications
from innet.kv.pool.settings import PoolSettings
from innet.kv.pool.statistics import PoolStatistics
from innet.kv.pool.tiers.tiered import TieredStore
from innet.kv.pool.verified_store import VerifiedStore
from innet.kv.pool.window import Window
from innet.node.control.protocol import tenant_prefix


class PoolParts:
    """What a pool is made of at one node.

    Attributes:
        local: what the node keeps for itself.
        offered: what it keeps for others.
        window: of blocks that it has on their way at once.
        finder: gets blocks.
        giver: puts them.
        pinning: keeps or drops them.
        home: does what others ask for.
    """

    def __init__(
        self,
        network: BlockNetwork,
        local: TieredStore,
        offered: TieredStore,
        settings: PoolSettings,
        counts: PoolStatistics,
    ) -> None:
        """
        Args:
            network: of the node.
            local: for blocks that it uses itself.
            offered: for blocks that others ask it for.
            settings: of the pool.
            counts: where its home counts what it does.
        """
        self._prefix = f"{tenant_prefix(network.tenant)}/"
        self._publications = Publications(network)
        when_asked = settings.puts == "when-asked"
        self.offered = OfferedStore(offered, self._publications, settings.answer_s)
        self._served = [self.offered]
        self.local: VerifiedStore = self.offered
        if local is not offered and when_asked:
            self.local = served = OfferedStore(local, self._publications, settings.answer_s)
            self._served.append(served)
        elif local is not offered:
            self.local = VerifiedStore(local, self._publications)
        members = Members(network, settings.replicas, settings.leave_out_s)
        self.window = Window(settings.window)
        intake = Intake(network, self.offered, asyncio.Semaphore(settings.window))
        notes = Notes(
            self.offered,
            intake,
            self._publications,
            timeout_s=settings.timeout_s / 2,
            leave_out_s=settings.leave_out_s,
        )
        for store in self._served:
            store.wait_for(notes.__contains__)
        self._holdings = Holdings(
            offered, local, notes, settings.longest_lease_s, local_is_served=when_asked
        )
        self.finder = Finder(
            network,
            self.local,
            self.offered,
            notes,
            members,
            self.window,
            hear=self._hear,
            keeps_fetched=settings.keeps_fetched and local.capacity_bytes > 0,
        )
        asker = Asker(network, members)
        self.giver = Giver(
            network,
            self.local,
            self.offered,
            self._publications,
            members,
            asker,
            settings.put_timeout_s,
            hear=self._hear,
            when_asked=when_asked,
        )
        self.home = Home(
            network,
            self.offered,
            self.local if when_asked else None,
            self._holdings,
            intake,
            notes,
            members,
            settings,
            counts,
        )
        self.pinning = Pinning(
            network.node,
            self._holdings,
            members,
            asker,
            settings.put_timeout_s,
            hear=self._hear,
        )
        self._serving: asyncio.Task[None] | None = None

    def _hear(self) -> None:
        """Have what the network has kept by itself entered into ``offered``."""
        if self.offered.tiers.memory.capacity_bytes:
            self.home.hear()

    async def start(self) -> None:
        """Serve others from now on, with what the disk has from before."""
        self._serving = asyncio.ensure_future(self.home.serve())
        for store in self._served:
            await store.start(self._prefix)

    async def close(self) -> None:
        """Serve nothing any more, and let the disks write what they have not."""
        serving, self._serving = self._serving, None
        if serving is None:
            return
        serving.cancel()
        [end] = await asyncio.gather(serving, return_exceptions=True)
        self._holdings.close()
        for store in self._served:
            store.close()
        self._publications.close()
        for tiers in dict.fromkeys((self.local.tiers, self.offered.tiers)):
            await tiers.close()
        if isinstance(end, Exception):
            raise end
