"""Blocks that this node has, as they were signed."""

from __future__ import annotations

from innet.kv.pool.network import Sealed
from innet.kv.pool.publications import Publications
from innet.kv.pool.single_flight import SingleFlight
from innet.kv.pool.tiers.tiered import Tier, TieredStore


class VerifiedStore:
    """A store whose disk may have been damaged, or written to by others.

    What is read from disk is verified before it is used, like what comes over the network.

    Attributes:
        tiers: where the blocks are.
    """

    def __init__(self, tiers: TieredStore, publications: Publications) -> None:
        """
        Args:
            tiers: where the blocks are.
            publications: verify blocks, in that they serve none that is not as it was signed.
        """
        self.tiers = tiers
        self._publications = publications
        self._loading: SingleFlight[str, Sealed | None] = SingleFlight()

    async def get(self, name: str) -> tuple[Sealed, Tier] | None:
        """The block and the tier that had it; ``None``: it is not here, or is damaged."""
        block = self.tiers.memory.get(name)
        if block is not None:
            return block, Tier.MEMORY
        block = await self.load(name)
        return None if block is None else (block, Tier.DISK)

    async def load(self, name: str) -> Sealed | None:
        """Bring a block from disk to memory."""
        if self.tiers.tier(name) is not Tier.DISK:
            return None
        return await self._loading.run(name, lambda: self._load(name))

    async def keep(self, name: str, block: Sealed, depth: int) -> bool:
        """Keep a block; false: there is no room, or it is damaged, as far as that is looked at."""
        return self.put(name, block, depth)

    def put(self, name: str, block: Sealed, depth: int) -> bool:
        """Keep a block that is as it was signed; whether there is room for it."""
        return self.tiers.put(name, block, depth) is not None

    def loaded(self, name: str) -> None:
        """A block has come from disk, is served at this moment, and may not be in memory."""

    async def _load(self, name: str) -> Sealed | None:
        read = await self.tiers.read_disk(name)
        if read is None:
            return None
        block = await self._publications.add(name, read)
        if block is None:
            self.tiers.remove_damaged(name)
            return None
        try:
            self.tiers.promote(name, block)
            self.loaded(name)
        finally:
            self._publications.release(name)
        return block
