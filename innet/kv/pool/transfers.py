"""Loads and puts of blocks: to this node, and from it to their homes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from innet.kv.names import BlockKey
from innet.kv.pool.home import Home
from innet.kv.pool.network import Cause, Contents, Sealed
from innet.kv.pool.pool_node import PoolNode
from innet.kv.pool.requests import MAX_NUMBER, Note, Offer
from innet.kv.pool.served import Publication
from innet.kv.pool.statistics import Place
from innet.kv.pool.store import Tier
from innet.kv.pool.waiting import SingleFlight, TimedLock, TimeLimit, gather, now_s
from innet.kv.pool.window import BLOCKS_OF_REQUEST

_LOCAL: Final = {
    Tier.MEMORY: Place.LOCAL_MEMORY,
    Tier.DISK: Place.LOCAL_DISK,
    Tier.OBJECTS: Place.LOCAL_OBJECTS,
}
_ASK_S: Final = 1.0
"""After this time the homes are also asked for an announced block: its producer may be dead."""
_DECISION_S: Final = 0.1
"""After this time without an answer of a home, the next block is offered: a home that hangs must
not delay puts to others."""
_LEAST_S: Final = 0.001
"""A wait for an announced block ends when less is left."""
_REFUSALS: Final = 2
"""Refusals in a row by which a producer has withdrawn a block: one may be a home's answer to
another request of this node for the block, because a node has one PIT entry for both."""
_SERVED: Final = {
    Tier.MEMORY: Place.HOME_MEMORY,
    Tier.DISK: Place.HOME_DISK,
    Tier.OBJECTS: Place.HOME_OBJECTS,
}
_NEARNESS: Final = {None: 0, Tier.MEMORY: 0, Tier.DISK: 1, Tier.OBJECTS: 2}


NewBlock: TypeAlias = tuple[BlockKey, Contents, int]
"""A block that is put, its bytes, and its depth in its prompt."""


@dataclass(slots=True)
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
            home: this node as a home of blocks.
        """
        self._node = node
        self._home = home
        self._keeps_fetched = node.settings.keeps_fetched and node.local.tiers.capacity_bytes > 0
        self._defers = node.settings.shares_store
        self._balances = node.settings.puts == "balanced"
        self._deciding = TimedLock(_DECISION_S)
        """Whether a block stays depends on those before it."""
        self._keeps = any(store.tiers.capacity_bytes for store in node.stores)
        self._fetches: SingleFlight[str, Sealed | Cause] = SingleFlight()

    def is_far(self, key: BlockKey) -> bool:
        """Whether a load has to ask other members for a block."""
        name = key.name
        return not (self._home.has_now(name) or name in self._node.store.index)

    async def load(self, key: BlockKey, limit: TimeLimit) -> Found | Cause:
        """A block, or why it was not found in time."""
        name = key.name
        try:
            if self._home.has(name) or name in self._node.store.index:
                async with limit.begun().wait():
                    found = await self._load_here(name) or await self._load_deferred(name)
                if found is not None:
                    return found
            while name in self._fetches:
                self._node.counts.shared += 1
                async with limit.wait():
                    fetched = await self._fetches.run(name, partial(self._fetch_one, key, limit))
                if isinstance(fetched, Sealed):
                    return Found(fetched, Place.NETWORK)
                limit = limit.begun()  # the other load may have had less time than this one
            return (await self.load_together([key], limit))[0]
        except TimeoutError:
            return Cause.LATE

    async def load_together(
        self, keys: Sequence[BlockKey], limit: TimeLimit
    ) -> list[Found | Cause]:
        """:meth:`load` for blocks that are far: at most as many as the window has places."""
        names = [key.name for key in keys]
        own = {
            name: key for name, key in zip(names, keys, strict=True) if self._fetches.begin(name)
        }
        ends: dict[str, Sealed | Cause] = {}
        try:
            if own:
                ends = await self._fetch(own, limit)
        finally:
            for name in own:
                self._fetches.end(name, ends.get(name))
        found: list[Found | Cause] = []
        for name, key in zip(names, keys, strict=True):
            end = ends.get(name)
            if end is None:  # another load fetches it
                found.append(await self.load(key, limit))
            else:
                found.append(Found(end, Place.NETWORK) if isinstance(end, Sealed) else end)
        return found

    async def _fetch_one(self, key: BlockKey, limit: TimeLimit) -> Sealed | Cause:
        return (await self._fetch({key.name: key}, limit))[key.name]

    async def load_announced(self, key: BlockKey, producer: str, end_s: float) -> Found | Cause:
        """A block that ``producer`` has announced, awaited there; a home may have it as well."""
        found: Found | Cause = Cause.LATE
        for _ in range(_REFUSALS):
            where = await self.await_announced(key, producer, end_s)
            if isinstance(where, Cause):
                return where
            left_s = max(0.0, end_s - now_s())
            if where is Place.PRODUCER:
                fetched = await self._node.network.fetch(key.name, producer, left_s)
                if isinstance(fetched, Sealed):
                    await self._keep_fetched([key.name], [fetched])
                    return Found(fetched, Place.PRODUCER)
            found = await self.load(key, TimeLimit(end_s))
            if isinstance(found, Found):
                break
        return found

    async def await_announced(self, key: BlockKey, producer: str, end_s: float) -> Place | Cause:
        """Wait until a block is at the node that announced it, or elsewhere; return which."""
        refusals = 0
        while True:
            absence: Cause | None = Cause.ABSENT
            if producer != self._node.network.node and not self._home.has(key.name):
                # Not through PeerClient, which would count a producer that is not ready as failed.
                slice_s = min(_ASK_S, max(0.0, end_s - now_s()))
                absence = await self._node.network.probe(key.name, producer, slice_s)
                if absence is None:
                    return Place.PRODUCER
            elsewhere = await self.absence(key, TimeLimit(end_s))
            if elsewhere is None:
                return Place.NETWORK
            refusals = 0 if absence is Cause.LATE else refusals + 1
            if absence is Cause.UNREACHABLE or refusals == _REFUSALS:
                return elsewhere
            if end_s - now_s() < _LEAST_S:
                return Cause.LATE

    async def absence(self, key: BlockKey, limit: TimeLimit) -> Cause | None:
        """Why a block is neither here nor at a home; ``None`` if it is."""
        name = key.name
        if self._home.has(name):
            return None
        cause: Cause | None = None
        try:
            await self._node.window.enter(limit.end_s)
        except TimeoutError:
            return Cause.LATE
        try:
            end_s = limit.end_of_block_s()
            async with asyncio.timeout_at(end_s):
                if name in self._node.store.index and await self._home.fetch_deferred(name):
                    return None
                for home, time_s in _turns(self._asked(key), end_s):
                    absence = await self._node.peers.probe(name, home, time_s)
                    if absence is None:
                        return None
                    cause = cause or absence
        except TimeoutError:
            return cause or Cause.LATE
        finally:
            self._node.window.leave()
        return cause or self._no_answer(key)

    async def _load_here(self, name: str) -> Found | None:
        stores = ((self._node.local, _LOCAL), (self._node.store, _SERVED))
        # Any memory is nearer than any disk, and that nearer than any object storage.
        for store, places in sorted(stores, key=lambda pair: _NEARNESS[pair[0].tier(name)]):
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

    async def _fetch(
        self, keys: Mapping[str, BlockKey], limit: TimeLimit
    ) -> dict[str, Sealed | Cause]:
        """Blocks of other members by their names, all at once."""
        window = self._node.window
        count = window.places(window.size_of(key.family for key in keys.values()), len(keys))
        if not window.try_enter(count):
            try:
                await window.enter(limit.end_s, count)
            except TimeoutError:  # loads that share a fetch may have more time
                return dict.fromkeys(keys, Cause.LATE)
        try:
            end_s = limit.end_of_block_s()
            asked = {name: self._asked(key) for name, key in keys.items()}
            ends = await self._fetch_nearest(asked, end_s)
            window.on_seen(
                (keys[name].family, end.contents.nbytes)
                for name, end in ends.items()
                if isinstance(end, Sealed)
            )
            lacking = [name for name in keys if not isinstance(ends.get(name), Sealed)]
            if lacking:
                others = [
                    self._fetch_from(asked[name][1:], keys[name], name, end_s, ends.get(name))
                    for name in lacking
                ]
                ends |= zip(lacking, await gather(others), strict=True)
            return ends
        finally:
            window.leave(count)

    async def _fetch_nearest(
        self, asked: Mapping[str, Sequence[str]], end_s: float
    ) -> dict[str, Sealed | Cause]:
        """Fetch each block from the first of the members to ask for it, if there is one."""
        names_of: dict[str, list[str]] = {}
        for name, members in asked.items():
            if members:
                names_of.setdefault(members[0], []).append(name)
        turns = max(map(len, asked.values())) or 1
        time_s = max(0.0, end_s - now_s()) / turns
        fetched = await gather(
            [self._node.peers.fetch(names, member, time_s) for member, names in names_of.items()]
        )
        ends: dict[str, Sealed | Cause] = {}
        for names, some in zip(names_of.values(), fetched, strict=True):
            ends |= zip(names, some, strict=True)
            await self._keep_fetched(names, some)
        return ends

    async def _fetch_from(
        self,
        members: Sequence[str],
        key: BlockKey,
        name: str,
        end_s: float,
        cause: Sealed | Cause | None,
    ) -> Sealed | Cause:
        for member, time_s in _turns(members, end_s):
            [fetched] = await self._node.peers.fetch([name], member, time_s)
            if isinstance(fetched, Sealed):
                await self._keep_fetched([name], [fetched])
                return fetched
            cause = cause or fetched
        return cause or self._no_answer(key)

    async def _keep_fetched(self, names: Sequence[str], blocks: Sequence[Sealed | Cause]) -> None:
        if not self._keeps_fetched:
            return
        for name, block in zip(names, blocks, strict=True):
            if isinstance(block, Sealed):
                await self._node.local.keep(name, block, 0, is_copy=self._defers)

    def _asked(self, key: BlockKey) -> list[str]:
        """The members to ask one after the other: the nearest that have the block, as far as is
        known, then its homes."""
        directory = self._node.directory
        homes = self._node.members.other_homes(key)
        return homes if directory is None else directory.in_order(key.name, homes)

    def _no_answer(self, key: BlockKey) -> Cause:
        return Cause.ABSENT if self._node.members.homes(key.block_hash) else Cause.NO_HOME

    async def put(
        self, blocks: Sequence[NewBlock], together: int = BLOCKS_OF_REQUEST
    ) -> list[list[Cause | None]]:
        """Sign blocks and copy them to their homes, or notify these; this node keeps them, too, as
        far as there is room.

        The caller may change their bytes when this has ended, even if it was cancelled.

        Args:
            blocks: at most ``together``; unless ``puts="at-once"``, one.
            together: blocks that one request may have.

        Returns:
            For each block and each of its homes: ``None`` if the home has the block or knows its
            producer, otherwise why not.
        """
        if self._keeps:
            blocks = [(key, contents.copy(), depth) for key, contents, depth in blocks]
        names = [key.name for key, _, _ in blocks]
        signing = self._start_signing(names, blocks)
        held = list(signing)
        try:
            return await self._put(names, blocks, signing, held, together)
        except BaseException:
            if not self._keeps:
                # Other bytes would be signed, and homes that were asked already would keep them.
                for name in names:
                    await self._node.served.wait_until_signed(name)
            raise
        finally:
            self._node.served.release(*held)

    def _start_signing(
        self, names: Sequence[str], blocks: Sequence[NewBlock]
    ) -> dict[str, Publication]:
        """Start to sign the blocks that this node does not have, unless homes are only notified."""
        if self._defers:
            return {}
        return self._node.served.start_signing(
            [
                (name, contents)
                for name, (_, contents, _) in zip(names, blocks, strict=True)
                if not (self._keeps and self._home.has(name))
            ]
        )

    async def _put(
        self,
        names: Sequence[str],
        blocks: Sequence[NewBlock],
        signing: Mapping[str, Publication],
        held: list[str],
        together: int,
    ) -> list[list[Cause | None]]:
        """:meth:`put` blocks, some of which are being signed; ``held`` gets the names of others
        that are served meanwhile."""
        sealed: dict[str, Sealed | None] = {}
        for name, (_, contents, _) in zip(names, blocks, strict=True):
            if name not in signing:
                sealed[name] = await self._seal(name, contents)
                held.append(name)
        moves: bool | Cause | None = None
        offered_to: str | None = None
        if self._defers:
            new, own = blocks[0], sealed[names[0]]
            if self._balances:
                async with self._deciding.hold():
                    offered_to = self._home_to_offer(new)
                    moves = None if offered_to is None else await self._offer(new, offered_to)
                    stays = moves is not True and self._put_here(own, new)
            else:
                stays = self._put_here(own, new)
            if stays:
                return [await self._note_homes(new, offered_to if moves is False else None)]
        # Homes fetch the blocks while they are signed.
        ends = await self._keep_at_homes(blocks, together)
        for name, publication in signing.items():
            sealed[name] = await self._node.served.published(publication)
            if not self._keeps:
                return ends  # nobody needs the others, which end together with it
        if self._keeps and not (moves is True and None in ends[0]):
            for name, block, its_ends in zip(names, blocks, ends, strict=True):
                await self._keep_here(name, sealed[name], block, its_ends)
        return ends

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

    def _home_to_offer(self, new: NewBlock) -> str | None:
        """The first home of a block; ``None``: this node is a home of it, or has room for it."""
        homes, node = self._node.members.homes(new[0].block_hash), self._node
        is_full = 1000 * node.local.tiers.next_wait_s <= MAX_NUMBER
        return homes[0] if homes and node.network.node not in homes and is_full else None

    async def _offer(self, new: NewBlock, home: str) -> bool | Cause:
        """Whether a home takes a block, because it keeps it longer than this node.

        Returns:
            False if the home has noted the block, a cause if it has not answered.
        """
        (key, _, depth), node = new, self._node
        wait_ms = int(1000 * node.local.tiers.next_wait_s)
        return await node.peers.offer(home, Offer(key, depth, node.network.node, wait_ms))

    def _put_here(self, block: Sealed | None, new: NewBlock) -> bool:
        key, _, depth = new
        return block is not None and self._node.local.put(key.name, block, depth)

    async def _note_homes(self, new: NewBlock, noted_by: str | None) -> list[Cause | None]:
        """Let the homes of a block that is here note its producer; ``noted_by`` has done so."""
        (key, _, depth), node = new, self._node
        homes, own = node.members.homes(key.block_hash), node.network.node
        note = Note(key, depth, own)
        rest = [home for home in homes if home not in (noted_by, own)]
        causes = await gather([node.peers.request(home, note) for home in rest])
        return [None] * (len(homes) - len(rest)) + causes

    async def _keep_at_homes(
        self, blocks: Sequence[NewBlock], together: int
    ) -> list[list[Cause | None]]:
        """Let the other homes of blocks keep them; for each block the causes of those that do
        not."""
        node, own = self._node, self._node.network.node
        ends: list[list[Cause | None]] = [[] for _ in blocks]
        asked: dict[tuple[str, tuple[str, str, str]], list[int]] = {}
        all_homes = node.members.homes_of([key for key, _, _ in blocks])
        for place, homes in enumerate(all_homes):
            for home in homes:
                if home != own:
                    asked.setdefault((home, blocks[place][0].family.kind), []).append(place)
        answers = await gather(
            [
                node.peers.keep(
                    home, [(blocks[at][0], blocks[at][2]) for at in places], own, together=together
                )
                for (home, _), places in asked.items()
            ]
        )
        for places, causes in zip(asked.values(), answers, strict=True):
            for place, cause in zip(places, causes, strict=True):
                ends[place].append(cause)
        return ends

    async def _keep_here(
        self, name: str, block: Sealed | None, new: NewBlock, ends: list[Cause | None]
    ) -> None:
        """Keep a block at this node, and add an end if it is a home."""
        if block is None:
            return
        (key, _, depth), node = new, self._node
        if node.network.node in node.members.homes(key.block_hash):
            kept = await node.store.keep(name, block, node.members.own_depth(depth))
            ends.append(None if kept else Cause.REFUSED)
        if node.store.tier(name) is None:
            node.local.put(name, block, depth)

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
                if await self._node.peers.keep(node, [(key, 0)], source) == [None]:
                    return True
            return False

        return all(await gather([keep(node) for node in nodes]))


def _turns(members: Sequence[str], end_s: float) -> Iterator[tuple[str, float]]:
    """Members to ask one after the other, each for its part of the time left."""
    for index, member in enumerate(members):
        yield member, max(0.0, end_s - now_s()) / (len(members) - index)
