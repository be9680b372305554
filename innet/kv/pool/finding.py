"""Where a block is found: here, or at one of its homes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from innet.kv.names import BlockKey
from innet.kv.pool.members import Members
from innet.kv.pool.network import BlockNetwork, Outcome, Sealed
from innet.kv.pool.notes import Notes
from innet.kv.pool.offered_store import OfferedStore
from innet.kv.pool.single_flight import SingleFlight
from innet.kv.pool.statistics import OUTCOME_CAUSES, Cause, Place
from innet.kv.pool.tiers.tiered import Tier
from innet.kv.pool.verified_store import VerifiedStore
from innet.kv.pool.window import Window

_LOCAL = {Tier.MEMORY: Place.LOCAL_MEMORY, Tier.DISK: Place.LOCAL_DISK}
_OFFERED = {Tier.MEMORY: Place.HOME_MEMORY, Tier.DISK: Place.HOME_DISK}


@dataclass(frozen=True)
class Found:
    """A block, and where it was."""

    block: Sealed
    place: Place


class Finder:
    """Finds blocks: in this node's memory, on its disk, at their homes, in this order.

    Who asks for a block that is already on its way waits for that.
    """

    def __init__(
        self,
        network: BlockNetwork,
        local: VerifiedStore,
        offered: OfferedStore,
        notes: Notes,
        members: Members,
        window: Window,
        *,
        hear: Callable[[], None],
        keeps_fetched: bool,
    ) -> None:
        """
        Args:
            network: of this node.
            local: what this node keeps for itself.
            offered: what it keeps for others.
            notes: of blocks that this node is home to, and that are elsewhere.
            members: of the pool.
            window: of blocks that are on their way at once.
            hear: has what the network has kept by itself entered into ``offered``.
            keeps_fetched: whether what comes from elsewhere is kept here.
        """
        self._network = network
        self._local = local
        self._offered = offered
        self._notes = notes
        self._members = members
        self._window = window
        self._hear = hear
        self._keeps_fetched = keeps_fetched
        self._flights: SingleFlight[str, Sealed | Cause] = SingleFlight()
        self.shared = 0

    async def find(self, key: BlockKey, timeout_s: float) -> Found | Cause:
        """A block, or why it is not there.

        Args:
            key: of the block.
            timeout_s: from now to the end.
        """
        name = key.name
        end_s = self._now_s() + timeout_s
        try:
            if self.is_here(name) or name in self._notes:
                async with asyncio.timeout_at(end_s):
                    found = await self._find_here(name) or await self._find_noted(name)
                if found is not None:
                    return found
            return await self._find_at_homes(key, name, end_s)
        except TimeoutError:
            return Cause.LATE

    def is_here(self, name: str) -> bool:
        """Whether this node has a block, without using it."""
        if self._has(name):
            return True
        self._hear()
        return self._has(name)

    async def absence(self, key: BlockKey, timeout_s: float) -> Cause | None:
        """Why a block is neither here nor at a home; ``None`` if it is."""
        if self.is_here(key.name):
            return None
        end_s = self._now_s() + timeout_s
        cause: Cause | None = None
        try:
            async with asyncio.timeout_at(end_s), self._window:
                if key.name in self._notes and await self._notes.bring(key.name):
                    return None
                homes = self._members.homes(key.block_hash)
                for home, time_s in self._turns(homes, end_s):
                    with self._members.asking(home) as asked:
                        asked.outcome = await self._network.probe(key.name, home, time_s)
                    if asked.outcome is Outcome.HERE:
                        return None
                    cause = cause or OUTCOME_CAUSES[asked.outcome]
        except TimeoutError:
            return cause or Cause.LATE
        return cause or (Cause.ABSENT if homes else Cause.NO_HOME)

    def _has(self, name: str) -> bool:
        return bool(self._local.tiers.tier(name) or self._offered.tiers.tier(name))

    async def _find_here(self, name: str) -> Found | None:
        stores = ((self._local, _LOCAL), (self._offered, _OFFERED))
        # What is in any memory is nearer than what is on any disk.
        for store, places in sorted(stores, key=lambda pair: pair[0].tiers.tier(name) is Tier.DISK):
            found = await store.get(name)
            if found is not None:
                block, tier = found
                return Found(block, places[tier])
        return None

    async def _find_noted(self, name: str) -> Found | None:
        """This node is home to the block, and knows who has it."""
        if name not in self._notes or not await self._notes.bring(name):
            return None
        found = await self._find_here(name)
        block = self._offered.lingering(name) if found is None else found.block
        return None if block is None else Found(block, Place.PRODUCER)

    async def _find_at_homes(self, key: BlockKey, name: str, end_s: float) -> Found | Cause:
        def fetch() -> Coroutine[Any, Any, Sealed | Cause]:
            return self._fetch(key, name, end_s)

        while name in self._flights:
            self.shared += 1
            async with asyncio.timeout_at(end_s):
                found = await self._flights.run(name, fetch)
            if isinstance(found, Sealed):
                return Found(found, Place.NETWORK)
            # Another's time was over, perhaps: this one has its own.
        found = await self._flights.run(name, fetch)
        return Found(found, Place.NETWORK) if isinstance(found, Sealed) else found

    async def _fetch(self, key: BlockKey, name: str, end_s: float) -> Sealed | Cause:
        homes = self._members.homes(key.block_hash)
        cause: Cause | None = None
        try:
            await self._window.enter(end_s)
        except TimeoutError:  # others who wait for this have more time, perhaps
            return Cause.LATE
        try:
            for home, time_s in self._turns(homes, end_s):
                with self._members.asking(home) as asked:
                    asked.outcome, block = await self._network.fetch(name, home, time_s)
                if block is not None:
                    if self._keeps_fetched:
                        await self._local.keep(name, block, 0)
                    return block
                cause = cause or OUTCOME_CAUSES[asked.outcome]
            return cause or (Cause.ABSENT if homes else Cause.NO_HOME)
        finally:
            self._window.leave()

    def _turns(self, homes: Sequence[str], end_s: float) -> Iterator[tuple[str, float]]:
        """The other nodes to ask for a block one after the other, and how long each: so long that
        there is as much time for each of the rest."""
        others = [home for home in homes if home != self._network.node]
        for index, home in enumerate(others):
            yield home, max(0.0, end_s - self._now_s()) / (len(others) - index)

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()
