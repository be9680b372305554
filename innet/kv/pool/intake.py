"""How blocks come into a home's store."""

from __future__ import annotations

import asyncio

from innet.kv.pool.network import BlockNetwork, Outcome
from innet.kv.pool.offered_store import OfferedStore
from innet.kv.pool.single_flight import SingleFlight


def lack_after(outcome: Outcome) -> str:
    """Why a block is not here that could not be fetched."""
    return f"the block is {outcome.value}"


class Intake:
    """Fetches blocks that this node is to keep for others, each once and so many at a time."""

    def __init__(
        self,
        network: BlockNetwork,
        store: OfferedStore,
        window: asyncio.Semaphore,
    ) -> None:
        """
        Args:
            network: of this node.
            store: where the blocks go.
            window: of blocks that are on their way to it at once.
        """
        self._network = network
        self._store = store
        self._window = window
        self._keeping: SingleFlight[str, str | None] = SingleFlight()

    async def keep(self, name: str, depth: int, source: str, timeout_s: float) -> str | None:
        """Have a block, from ``source`` if it is not here; ``None``, or why it is not here.

        Args:
            name: of the block.
            depth: its own at this home.
            source: a node that has it.
            timeout_s: for it to come.
        """
        if self._store.tiers.tier(name) is not None:
            self._store.tiers.use(name)
            return None
        return await self._keeping.run(name, lambda: self._fetch(name, depth, source, timeout_s))

    async def _fetch(self, name: str, depth: int, source: str, timeout_s: float) -> str | None:
        if not self._store.tiers.capacity_bytes:
            return "no memory is offered"
        async with self._window:
            outcome, block = await self._network.fetch(name, source, timeout_s)
        if block is None or outcome is not Outcome.HERE:
            return lack_after(outcome)
        return None if await self._store.keep(name, block, depth) else "no room"
