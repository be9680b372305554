"""Blocks that this node keeps for others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from innet.kv.pool.network import Sealed
from innet.kv.pool.publications import Publications
from innet.kv.pool.tiers.tiered import Tier, TieredStore
from innet.kv.pool.verified_store import VerifiedStore

_MOST_LINGERING = 8
_NAMES_AT_A_TIME = 64


class OfferedStore(VerifiedStore):
    """What is in memory is served; who asks for what is on disk waits until it is loaded."""

    def __init__(self, tiers: TieredStore, publications: Publications, linger_s: float) -> None:
        """
        Args:
            tiers: where the blocks are.
            publications: of this node.
            linger_s: how long a block is served that there is no room for, when it was loaded from
                disk, or fetched for those who ask for it.
        """
        super().__init__(tiers, publications)
        self._linger_s = linger_s
        self._served: set[str] = set()
        self._may_return: Callable[[str], bool] = lambda name: False
        self._lingering: dict[str, asyncio.TimerHandle] = {}
        self._homeless: dict[str, Sealed] = {}
        tiers.on_change = self._changed

    async def start(self, prefix: str) -> None:
        """Serve what the disk has from before, of all names that begin with ``prefix``."""
        names = [name for name in self.tiers.disk_names() if name.startswith(prefix)]
        for count, name in enumerate(names):
            if self.tiers.tier(name) is Tier.DISK:
                self._publications.expect(name)
            if count % _NAMES_AT_A_TIME == 0:
                await asyncio.sleep(0)  # there may be many, and others who wait for the event loop

    def wait_for(self, may_return: Callable[[str], bool]) -> None:
        """Let those who ask for a block that is here no longer wait if ``may_return(name)``."""
        self._may_return = may_return

    async def keep(self, name: str, block: Sealed, depth: int) -> bool:
        """See :class:`VerifiedStore`; it is served from now on, or when it is published."""
        if self._publications.begin(name, block, lambda: self._drop(name)):
            try:
                return self._put_or_linger(name, block, depth)
            finally:
                self._publications.release(name)
        served = await self._publications.add(name, block)
        if served is None:
            return False
        try:
            return self._put_or_linger(name, served, depth)
        finally:
            self._publications.release(name)

    def lingering(self, name: str) -> Sealed | None:
        """A block that there is no room for, and that is served to those who ask for it now."""
        return self._homeless.get(name)

    def adopt(self, name: str, block: Sealed, depth: int) -> bool | None:
        """Keep a block that the network serves by itself; whether there is room for it, and
        ``None`` when another of the name is served."""
        if not self._publications.adopt(name, block):
            return None
        try:
            return self.put(name, block, depth)
        finally:
            self._publications.release(name)

    def _put_or_linger(self, name: str, block: Sealed, depth: int) -> bool:
        if self.put(name, block, depth):
            return True
        if self._may_return(name):
            self.loaded(name)
            self._homeless[name] = block
        return False

    def _drop(self, name: str) -> None:
        self._stop_lingering(name)
        self.tiers.remove(name)

    def loaded(self, name: str) -> None:
        """See :class:`VerifiedStore`."""
        if name in self._served:
            return
        self._publications.hold(name)
        self._stop_lingering(name)
        loop = asyncio.get_running_loop()
        self._lingering[name] = loop.call_later(self._linger_s, self._stop_lingering, name)
        if len(self._lingering) > _MOST_LINGERING:
            self._stop_lingering(next(iter(self._lingering)))

    def close(self) -> None:
        """Serve nothing any more."""
        for timer in self._lingering.values():
            timer.cancel()
        self._lingering.clear()
        self._homeless.clear()
        self.tiers.on_change = lambda name, tier: None

    def _stop_lingering(self, name: str) -> None:
        timer = self._lingering.pop(name, None)
        self._homeless.pop(name, None)
        if timer is not None:
            timer.cancel()
            self._publications.release(name)

    def _changed(self, name: str, tier: Tier | None) -> None:
        if tier is Tier.MEMORY:
            if name not in self._served:
                self._served.add(name)
                self._publications.hold(name)
            return
        if tier is Tier.DISK or self._may_return(name):
            self._publications.expect(name)
        else:
            self._publications.forget(name)
        if name in self._served:
            self._served.remove(name)
            self._publications.release(name)
        if tier is None:
            self._stop_lingering(name)
