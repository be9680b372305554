"""Hosts that keep blocks for others."""

from __future__ import annotations

from collections.abc import Mapping

from innet.kv.block_store import BlockStore
from innet.kv.placement import Placement
from innet.simulation.programs.kv.transfers import BlockTransfers, Fetched

_PUT_ATTEMPTS = 3


class Homes:
    """All homes of a job: which blocks they have, and how blocks come to them."""

    def __init__(
        self,
        stores: Mapping[str, BlockStore],
        placement: Placement | None,
        transfers: BlockTransfers,
        put_timeout_s: float,
    ) -> None:
        """
        Args:
            stores: of each home.
            placement: of blocks over the homes; ``None``: there are none.
            transfers: of the blocks.
            put_timeout_s: a block that needs longer to a home is not kept there.
        """
        self._stores = stores
        self._placement = placement
        self._transfers = transfers
        self._put_timeout_s = put_timeout_s
        self._arriving: set[tuple[str, bytes]] = set()
        self._given = 0

    def of(self, block: bytes) -> tuple[str, ...]:
        """The homes of a block, the one to ask first before the others."""
        return () if self._placement is None else self._placement.homes(block)

    def use(self, home: str, block: bytes) -> bool:
        """Whether ``home`` has the block, for a worker on the same host; it was asked for then."""
        store = self._stores.get(home)
        return store is not None and store.use(block)

    def count_asked(self) -> int:
        """How many blocks the homes themselves have given over the network.

        A home does not hear of the hits in caches on the way, and neither does its policy.
        """
        for home in self._stores:
            self._note_asked(home)
        return self._given

    def lose(self, home: str) -> None:
        """A home has lost all that it had."""
        if home in self._stores:
            self._stores[home].clear()

    async def put(self, worker: str, block: bytes, depth: int) -> tuple[int, int]:
        """Bring a block that ``worker`` has to its homes: to how many it came, and did not."""
        missing = [
            home
            for home in self.of(block)
            if (home, block) not in self._arriving and block not in self._stores[home]
        ]
        if not missing:
            return 0, 0
        self._arriving |= {(home, block) for home in missing}
        try:
            if not await self._transfers.hold(worker, block):
                return 0, len(missing)
            kept = [await self._bring(worker, home, block, depth) for home in missing]
        finally:
            self._transfers.release(worker, block)
            self._arriving -= {(home, block) for home in missing}
        return sum(kept), len(kept) - sum(kept)

    async def _bring(self, worker: str, home: str, block: bytes, depth: int) -> bool:
        if home != worker and not await self._fetched(worker, home, block):
            return False
        if not await self._transfers.hold(home, block):
            self._transfers.release(home, block)
            return False
        self._note_asked(home)
        # It sees but every so many blocks of a prompt.
        own_depth = depth * len(self.of(block)) // len(self._stores)
        for gone in self._stores[home].put(block, own_depth):
            self._transfers.release(home, gone)
        return True

    async def _fetched(self, worker: str, home: str, block: bytes) -> bool:
        for _ in range(_PUT_ATTEMPTS):
            end = await self._transfers.fetch(home, worker, block, self._put_timeout_s)
            # A switch that had asked this home for the same block answers with what it heard.
            if end is not Fetched.ABSENT:
                return end is Fetched.HERE
        return False

    def _note_asked(self, home: str) -> None:
        """Let a home's policy know what it was asked for."""
        store = self._stores[home]
        self._given += sum(store.use(block) for block in self._transfers.take_asked(home))
