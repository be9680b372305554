"""Leases and evictions: here, and at a block's homes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from innet.kv.names import BlockKey
from innet.kv.pool.asker import Asker
from innet.kv.pool.holdings import Holdings
from innet.kv.pool.members import Members
from innet.kv.requests import MAX_NUMBER, Action, Drop, Pin, Unpin


class Pinning:
    """Does to a block what one node wants, at all places where the block is."""

    def __init__(
        self,
        node: str,
        holdings: Holdings,
        members: Members,
        asker: Asker,
        timeout_s: float,
        *,
        hear: Callable[[], None],
    ) -> None:
        """
        Args:
            node: this node.
            holdings: what it has.
            members: of the pool.
            asker: of this node.
            timeout_s: for a member's answer.
            hear: has what the network has kept by itself entered into ``holdings``.
        """
        self._hear = hear
        self._node = node
        self._holdings = holdings
        self._members = members
        self._asker = asker
        self._timeout_s = timeout_s

    async def pin(self, key: BlockKey, lease_s: float) -> bool:
        """Whether a block is pinned now, at least at one place."""
        self._hear()
        here = await self._holdings.pin(key.name, self._node, lease_s)
        lease_ms = min(MAX_NUMBER, max(1, round(lease_s * 1000)))
        return any(await self._ask_homes(key, Pin(key, lease_ms))) or here

    async def unpin(self, key: BlockKey) -> None:
        """End this node's leases of a block."""
        self._holdings.unpin(key.name, self._node)
        await self._ask_homes(key, Unpin(key))

    async def evict(self, key: BlockKey) -> bool:
        """Whether a block is gone from all places, but those where another has pinned it."""
        self._hear()
        here = self._holdings.drop(key.name, self._node)
        return all(await self._ask_homes(key, Drop(key))) and here

    async def _ask_homes(self, key: BlockKey, action: Action) -> list[bool]:
        """Whether each of the other homes has done it."""

        async def ask(home: str) -> bool:
            return await self._asker.ask(home, action, self._timeout_s) is None

        homes = self._members.homes(key.block_hash)
        return await asyncio.gather(*(ask(home) for home in homes if home != self._node))
