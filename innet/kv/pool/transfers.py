"""Loads and puts of blocks: to this node, and from it to their homes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from innet.kv.names import BlockKey
from innet.kv.pool.home import Home, PoolNode
from innet.kv.pool.network import Cause, Contents, Sealed
from innet.kv.pool.requests import Note
from innet.kv.pool.statistics import Place
from innet.kv.pool.store import Tier
from innet.kv.pool.waiting import SingleFlight, gather, now_s

_LOCAL: Final = {Tier.MEMORY: Place.LOCAL_MEMORY, Tier.DISK: Place.LOCAL_DISK}
_ASK_S: Final = 1.0
"""After which the homes are asked for an announced block, too: its producer may be dead."""
_LEAST_S: Final = 0.001
"""A wait for an announced block ends when less is left."""
_REFUSALS: Final = 2
"""Refusals in a row by which a producer has withdrawn a block: one may be a home's answer to
another request of this node for the block, because a node has one PIT entry for both."""
_SERVED: Final = {Tier.MEMORY: Place.HOME_MEMORY, Tier.DISK: Place.HOME_DISK}


@dataclass(frozen=True)
class Found:
    """A block, and where it was."""

    block: Sealed
    place: Place


class BlockTransfers:
    """Loads blocks from this node's memory, its disk or their homes, in this order, and copies
    blocks of this node to their homes and to other members.

    Concurrent loads of one block share one fetch. A block that others keep is served as long as
    they need to fetch it.
    """

    def __init__(self, node: PoolNode, home: Home) -> None:
        """
        Args:
            node: this node's part of the pool.
            home: what it does for others.
        """
        self._node = node
        self._home = home
        self._keeps_fetched = node.settings.keeps_fetched and node.local.tiers.capacity_bytes > 0
        self._defers = node.settings.puts == "when-asked"
        self._keeps = any(store.tiers.capacity_bytes for store in node.stores)
        self._fetches: SingleFlight[str, Sealed | Cause] = SingleFlight()

    async def load(self, key: BlockKey, timeout_s: float) -> Found | Cause:
        """A block, or why it was not found, within ``timeout_s``."""
        name = key.name
        end_s = now_s() + timeout_s
        try:
            if self._home.has(name) or name in self._node.store.index:
                async with asyncio.timeout_at(end_s):
                    found = await self._load_here(name) or await self._load_deferred(name)
                if found is not None:
                    return found
            return await self._load_from_homes(key, name, end_s)
        except TimeoutError:
            return Cause.LATE

    async def load_announced(self, key: BlockKey, producer: str, timeout_s: float) -> Found | Cause:
        """A block that ``producer`` has announced, awaited there; a home may have it as well."""
        end_s = now_s() + timeout_s
        found: Found | Cause = Cause.LATE
        for _ in range(_REFUSALS):
            where = await self.await_announced(key, producer, max(0.0, end_s - now_s()))
            if isinstance(where, Cause):
                return where
            left_s = max(0.0, end_s - now_s())
            if where is Place.PRODUCER:
                fetched = await self._node.network.fetch(key.name, producer, left_s)
                if isinstance(fetched, Sealed):
                    await self._keep_fetched(key.name, fetched)
                    return Found(fetched, Place.PRODUCER)
                left_s = max(0.0, end_s - now_s())
            found = await self.load(key, left_s)
            if isinstance(found, Found):
                break
        return found

    async def await_announced(
        self, key: BlockKey, producer: str, timeout_s: float
    ) -> Place | Cause:
        """Wait until a block is at the node that has announced it or elsewhere; which of both."""
        end_s = now_s() + timeout_s
        refusals = 0
        while True:
            absence: Cause | None = Cause.ABSENT
            if producer != self._node.network.node and not self._home.has(key.name):
                # Not as a peer: a producer that is not ready has not failed.
                slice_s = min(_ASK_S, max(0.0, end_s - now_s()))
                absence = await self._node.network.probe(key.name, producer, slice_s)
                if absence is None:
                    return Place.PRODUCER
            elsewhere = await self.absence(key, max(0.0, end_s - now_s()))
            if elsewhere is None:
                return Place.NETWORK
            refusals = 0 if absence is Cause.LATE else refusals + 1
            if absence is Cause.UNREACHABLE or refusals == _REFUSALS:
                return elsewhere
            if end_s - now_s() < _LEAST_S:
                return Cause.LATE

    async def absence(self, key: BlockKey, timeout_s: float) -> Cause | None:
        """Why a block is neither here nor at a home; ``None`` if it is."""
        name = key.name
        if self._home.has(name):
            return None
        end_s = now_s() + timeout_s
        cause: Cause | None = None
        try:
            async with asyncio.timeout_at(end_s), self._node.window:
                if name in self._node.store.index and await self._home.fetch_deferred(name):
                    return None
                for home, time_s in self._turns(key, end_s):
                    absence = await self._node.peers.probe(name, home, time_s)
                    if absence is None:
                        return None
                    cause = cause or absence
        except TimeoutError:
            return cause or Cause.LATE
        return cause or self._no_answer(key)

    async def _load_here(self, name: str) -> Found | None:
        stores = ((self._node.local, _LOCAL), (self._node.store, _SERVED))
        # Any memory is nearer than any disk.
        for store, places in sorted(stores, key=lambda pair: pair[0].tier(name) is Tier.DISK):
            found = await store.get(name)
            if found is not None:
                block, tier = found
                return Found(block, places[tier])
        return None

    async def _load_deferred(self, name: str) -> Found | None:
        """This node is home to the block, and knows its producer."""
        if name not in self._node.store.index or not await self._home.fetch_deferred(name):
            return None
        found = await self._load_here(name)
        block = self._node.store.lingering(name) if found is None else found.block
        return None if block is None else Found(block, Place.PRODUCER)

    async def _load_from_homes(self, key: BlockKey, name: str, end_s: float) -> Found | Cause:
        while name in self._fetches:
            self._node.counts.shared += 1
            async with asyncio.timeout_at(end_s):
                found = await self._fetches.run(name, lambda: self._fetch(key, name, end_s))
            if isinstance(found, Sealed):
                return Found(found, Place.NETWORK)
            # The other load may have had less time than this one.
        found = await self._fetches.run(name, lambda: self._fetch(key, name, end_s))
        return Found(found, Place.NETWORK) if isinstance(found, Sealed) else found

    async def _fetch(self, key: BlockKey, name: str, end_s: float) -> Sealed | Cause:
        cause: Cause | None = None
        if not self._node.window.try_enter():
            try:
                await self._node.window.enter(end_s)
            except TimeoutError:  # loads that share this fetch may have more time
                return Cause.LATE
        try:
            for home, time_s in self._turns(key, end_s):
                fetched = await self._node.peers.fetch(name, home, time_s)
                if isinstance(fetched, Sealed):
                    await self._keep_fetched(name, fetched)
                    return fetched
                cause = cause or fetched
            return cause or self._no_answer(key)
        finally:
            self._node.window.leave()

    async def _keep_fetched(self, name: str, block: Sealed) -> None:
        if self._keeps_fetched:
            await self._node.local.keep(name, block, 0, is_copy=self._defers)

    def _turns(self, key: BlockKey, end_s: float) -> Iterator[tuple[str, float]]:
        """The members to ask one after the other, each for its part of the time left: the nearest
        that have the block, as far as is known, then its homes."""
        directory = self._node.directory
        homes = self._node.members.other_homes(key)
        asked = homes if directory is None else directory.in_order(key.name, homes)
        for index, member in enumerate(asked):
            yield member, max(0.0, end_s - now_s()) / (len(asked) - index)

    def _no_answer(self, key: BlockKey) -> Cause:
        return Cause.ABSENT if self._node.members.homes(key.block_hash) else Cause.NO_HOME

    async def put(self, key: BlockKey, contents: Contents, depth: int) -> list[Cause | None]:
        """Sign a block and copy it to its homes, or notify them; this node keeps it, too, as far as
        there is room.

        The caller may change ``contents`` when this has ended, even if it was cancelled.

        Returns:
            For each home why it does not have it, or ``None`` if it has it or knows who has.
        """
        if self._keeps:
            return await self._put(key, contents.copy(), depth)
        try:
            return await self._put(key, contents, depth)
        except BaseException:
            # Other bytes would be signed, and homes that were asked already would keep them.
            await self._node.served.wait_until_signed(key.name)
            raise

    async def replicate(self, key: BlockKey, nodes: Sequence[str]) -> bool:
        """Let other members keep a block as well; whether all have it."""
        node, name = self._node, key.name
        block = await self._home.get(name)
        if block is None or await node.served.add(name, block) is None:
            return await self._keep_at(nodes, key, node.members.other_homes(key))
        try:
            return await self._keep_at(nodes, key, [node.network.node])
        finally:
            node.served.release(name)

    async def _put(self, key: BlockKey, contents: Contents, depth: int) -> list[Cause | None]:
        node, name = self._node, key.name
        homes = node.members.homes(key.block_hash)
        others = [home for home in homes if home != node.network.node]
        is_home = len(others) < len(homes)
        signing = self._start_signing(name, contents)
        block = None if signing is not None else await self._seal(name, contents)
        try:
            if block is not None and self._defers and node.local.put(name, block, depth):
                note = Note(key, depth, node.network.node)
                told = await gather([node.peers.request(home, note) for home in others])
                return [*told, None] if is_home else told
            # Homes fetch the block while it is signed.
            ends = await gather(
                [node.peers.keep(home, key, depth, node.network.node) for home in others]
            )
            if signing is not None:
                block = await node.served.published(signing)
            if block is not None:
                if is_home:
                    own_depth = node.members.own_depth(depth)
                    kept = await node.store.keep(name, block, own_depth)
                    ends.append(None if kept else Cause.REFUSED)
                if self._keeps and node.store.tier(name) is None:
                    node.local.put(name, block, depth)
            return ends
        finally:
            node.served.release(name)

    def _start_signing(self, name: str, contents: Contents) -> asyncio.Future[Sealed | None] | None:
        if self._defers or (self._keeps and self._home.has(name)):
            return None
        return self._node.served.start_signing(name, contents)

    async def _seal(self, name: str, contents: Contents) -> Sealed:
        """The block that is served under ``name`` from now on.

        If this node has a block of this name, it serves that: two different blocks of one name
        would mix in the caches on the path.
        """
        block = await self._home.get(name)
        served = None if block is None else await self._node.served.add(name, block)
        return await self._node.served.sign(name, contents) if served is None else served

    async def _keep_at(self, nodes: Sequence[str], key: BlockKey, sources: Sequence[str]) -> bool:
        """Let ``nodes`` fetch a block from the first of ``sources`` that has it."""

        async def keep(node: str) -> bool:
            for source in sources:
                if await self._node.peers.keep(node, key, 0, source) is None:
                    return True
            return False

        return all(await gather([keep(node) for node in nodes]))
