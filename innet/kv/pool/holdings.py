"""What a node has of a block, wherever it has it."""

from __future__ import annotations

from innet.kv.pool.leases import Leases
from innet.kv.pool.notes import Notes
from innet.kv.pool.tiers.tiered import TieredStore


class Holdings:
    """Pins and drops what a node has, for itself and for others."""

    def __init__(
        self,
        offered: TieredStore,
        local: TieredStore,
        notes: Notes,
        longest_lease_s: float,
        *,
        local_is_served: bool,
    ) -> None:
        """
        Args:
            offered: what it keeps for others.
            local: what it keeps for itself.
            notes: of blocks that it knows where to get.
            longest_lease_s: a lease that asks for more ends after this.
            local_is_served: others get what is in ``local`` as well.
        """
        stores = dict.fromkeys((offered, local))
        self._leases = [Leases(tiers, longest_lease_s) for tiers in stores]
        self._served = self._leases if local_is_served else self._leases[:1]
        self._notes = notes

    async def pin(self, name: str, holder: str, lease_s: float) -> bool:
        """Let a block stay for ``lease_s`` at one place; whether there is one. What others may ask
        for comes first."""
        await self._notes.bring(name)
        return any(leases.pin(name, holder, lease_s) for leases in self._leases)

    async def pin_for_other(self, name: str, holder: str, lease_s: float) -> bool:
        """The same where another node that asks for the block gets it."""
        await self._notes.bring(name)
        return any(leases.pin(name, holder, lease_s) for leases in self._served)

    def unpin(self, name: str, holder: str) -> None:
        """End a holder's lease."""
        for leases in self._leases:
            leases.unpin(name, holder)

    def drop(self, name: str, holder: str) -> bool:
        """End a holder's lease, and drop the block unless another has one; whether it is gone."""
        self._notes.drop(name)
        gone = [leases.drop(name, holder) for leases in self._leases]
        return all(gone)

    def close(self) -> None:
        """End all leases."""
        for leases in self._leases:
            leases.close()
