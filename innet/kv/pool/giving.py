"""How blocks come to their homes, and to other members."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from innet.kv.names import BlockKey
from innet.kv.pool.asker import Asker
from innet.kv.pool.keep_requests import KeepRequests
from innet.kv.pool.members import Members
from innet.kv.pool.network import BlockNetwork, Contents, Sealed
from innet.kv.pool.offered_store import OfferedStore
from innet.kv.pool.publications import Publications
from innet.kv.pool.statistics import Cause
from innet.kv.pool.verified_store import VerifiedStore
from innet.kv.requests import Note


class Giver:
    """Serves a block for as long as those that are to keep it need to fetch it."""

    def __init__(
        self,
        network: BlockNetwork,
        local: VerifiedStore,
        offered: OfferedStore,
        publications: Publications,
        members: Members,
        asker: Asker,
        timeout_s: float,
        *,
        hear: Callable[[], None],
        when_asked: bool,
    ) -> None:
        """
        Args:
            network: of this node.
            local: what this node keeps for itself.
            offered: what it keeps for others.
            publications: of this node.
            members: of the pool.
            asker: of this node.
            timeout_s: for a member to get a block.
            hear: has what the network has kept by itself entered into ``offered``.
            when_asked: homes are told of a block, and get it when somebody asks for it; ``local``
                is served then.
        """
        self._network = network
        self._local = local
        self._offered = offered
        self._publications = publications
        self._members = members
        self._asker = asker
        self._keep_requests = KeepRequests(asker, network.most_kept_at_once, timeout_s)
        self._timeout_s = timeout_s
        self._hear = hear
        self._when_asked = when_asked
        self._keeps = bool(local.tiers.capacity_bytes or offered.tiers.capacity_bytes)

    async def put(self, key: BlockKey, contents: Contents, depth: int) -> list[Cause | None]:
        """Sign a block and bring it to its homes, or tell them of it; it stays here, too, as far as
        there is room.

        The caller may change ``contents`` when this has ended, even if it was cancelled.

        Returns:
            For each home why it has not got it, or ``None`` where it has, or knows who has.
        """
        if self._keeps:
            return await self._put(key, contents.copy(), depth)
        try:
            return await self._put(key, contents, depth)
        except BaseException:
            # Other bytes would be signed, and homes that were asked already would keep them.
            await self._publications.until_signed(key.name)
            raise

    async def _put(self, key: BlockKey, contents: Contents, depth: int) -> list[Cause | None]:
        homes = self._members.homes(key.block_hash)
        node = self._network.node
        name = key.name
        others = [home for home in homes if home != node]
        signing = self._begin_signing(name, contents)
        block = None if signing is not None else await self._seal(name, contents)
        try:
            if block is not None and self._when_asked and self._local.put(name, block, depth):
                told = await asyncio.gather(*(self._tell(key, home, depth) for home in others))
                return [*told, *(None for home in homes if home == node)]
            # Homes ask for the block while it is signed.
            ends = await self._bring_to(others, key, depth, node)
            if signing is not None:
                block = await self._publications.end_of(signing)
            if block is not None:
                ends += [await self._keep_here(name, block, depth) for h in homes if h == node]
                if self._keeps and self._offered.tiers.tier(name) is None:
                    self._local.put(name, block, depth)
            return ends
        finally:
            self._publications.release(name)

    async def replicate(self, key: BlockKey, nodes: Sequence[str]) -> bool:
        """Let other members keep a block as well; whether all have it."""
        name, node = key.name, self._network.node
        block = await self._block_here(name)
        if block is None or await self._publications.add(name, block) is None:
            sources = [home for home in self._members.homes(key.block_hash) if home != node]
            return await self._replicate_from(key, nodes, sources)
        try:
            return await self._replicate_from(key, nodes, [node])
        finally:
            self._publications.release(name)

    async def _replicate_from(
        self, key: BlockKey, nodes: Sequence[str], sources: Sequence[str]
    ) -> bool:
        async def bring(node: str) -> bool:
            for source in sources:
                if await self._keep_requests.ask(node, key, 0, source) is None:
                    return True
            return False

        return all(await asyncio.gather(*map(bring, nodes)))

    async def _block_here(self, name: str) -> Sealed | None:
        self._hear()
        for store in (self._local, self._offered):
            found = await store.get(name)
            if found is not None:
                return found[0]
        return None

    def _begin_signing(self, name: str, contents: Contents) -> asyncio.Future[Sealed | None] | None:
        if self._when_asked or (self._keeps and self._is_here(name)):
            return None
        return self._publications.begin_signing(name, contents)

    def _is_here(self, name: str) -> bool:
        self._hear()
        return any(store.tiers.tier(name) for store in (self._local, self._offered))

    async def _seal(self, name: str, contents: Contents) -> Sealed:
        """The block that is served under ``name`` from now on.

        What is here under this name already is served: two different blocks of one name would get
        mixed in the caches on the way.
        """
        block = await self._block_here(name)
        served = None if block is None else await self._publications.add(name, block)
        if served is not None:
            return served
        return await self._publications.sign(name, contents)

    async def _keep_here(self, name: str, block: Sealed, depth: int) -> Cause | None:
        kept = await self._offered.keep(name, block, self._members.own_depth(depth))
        return None if kept else Cause.REFUSED

    async def _bring_to(
        self, homes: Sequence[str], key: BlockKey, depth: int, source: str
    ) -> list[Cause | None]:
        bringing = [self._keep_requests.ask(home, key, depth, source) for home in homes]
        # A single one needs no task of its own.
        return [await bringing[0]] if len(bringing) == 1 else await asyncio.gather(*bringing)

    async def _tell(self, key: BlockKey, home: str, depth: int) -> Cause | None:
        return await self._asker.ask(home, Note(key, depth, self._network.node), self._timeout_s)
