"""Pins with an end."""

from __future__ import annotations

import asyncio

from innet.kv.pool.tiers.tiered import TieredStore


class Leases:
    """Who has pinned which blocks of a store, and until when: each lease ends by itself.

    A block is pinned as long as anybody's lease of it lasts. The tiers limit how much of them can
    be pinned.
    """

    def __init__(self, tiers: TieredStore, longest_s: float) -> None:
        """
        Args:
            tiers: the store.
            longest_s: a lease that asks for more ends after this.
        """
        self._tiers = tiers
        self._longest_s = longest_s
        self._leases: dict[str, dict[str, asyncio.TimerHandle]] = {}

    def pin(self, name: str, holder: str, lease_s: float) -> bool:
        """Begin a lease, or let one of this holder last from now; false: there is no room for it,
        or no such block."""
        if not self._tiers.pin(name):
            return False
        holders = self._leases.setdefault(name, {})
        if holder in holders:
            holders[holder].cancel()
        loop = asyncio.get_running_loop()
        end_s = min(lease_s, self._longest_s)
        holders[holder] = loop.call_later(end_s, self.unpin, name, holder)
        return True

    def unpin(self, name: str, holder: str) -> None:
        """End a lease, if there is one."""
        holders = self._leases.get(name, {})
        timer = holders.pop(holder, None)
        if timer is None:
            return
        timer.cancel()
        if not holders:
            del self._leases[name]
            self._tiers.unpin(name)

    def drop(self, name: str, holder: str) -> bool:
        """End this holder's lease, and drop the block unless another has one; whether it is gone
        now."""
        self.unpin(name, holder)
        if name in self._leases:
            return False
        self._tiers.remove(name)
        return True

    def close(self) -> None:
        """End all."""
        for name, holders in list(self._leases.items()):
            for holder in list(holders):
                self.unpin(name, holder)
