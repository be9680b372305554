"""A member's part of requests that concern many of its blocks: count, drop, pin."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

from innet.errors import KVError
from innet.kv.names import BlockKey
from innet.kv.pool.inventory import BlockFilter, BulkAnswer, BulkRequest, Tally
from innet.kv.pool.pool_node import PoolNode
from innet.kv.pool.store import LocalStore
from innet.kv.pool.waiting import gather, now_s

OPERATOR: Final = "*"
"""Holder of the leases that are given by filter: no node has this name, and any may end them."""
_NAMES_AT_A_TIME: Final = 256

PutAgain = Callable[[], Coroutine[Any, Any, None]]
"""Puts a label."""

_log = logging.getLogger(__name__)


class BulkWork:
    """Executes requests for many of this node's blocks, in all of its stores and tiers."""

    def __init__(self, node: PoolNode, drain: Callable[[], None]) -> None:
        """
        Args:
            node: this node's part of the pool.
            drain: registers the blocks that the network has kept on its own.
        """
        self._node = node
        self._drain = drain
        self.on_lease: Callable[[], None] = lambda: None
        self._labels: dict[BlockKey, PutAgain] = {}

    def add_label(self, key: BlockKey, put: PutAgain) -> None:
        """Put a label of this process again whenever blocks are listed: stores evict labels as
        other blocks, and nothing else puts them again."""
        self._labels[key] = put

    async def execute(self, request: BulkRequest) -> BulkAnswer:
        """The answer to a request, when its work is done and on the disks."""
        self._drain()
        if request.verb == "purge":
            return await self._purge(request)
        tally = Tally()
        if request.verb == "list":
            await self._put_labels(request.blocks, tally)
        async for key, store, age_s in self._matching(request.blocks):
            if request.verb == "hold" and not self._hold(key.name, store, request.duration_ms):
                continue
            tally.count(key, store, age_s)
        if request.verb == "hold":
            self.on_lease()
        return tally.answer()

    async def _put_labels(self, blocks: BlockFilter, tally: Tally) -> None:
        labels = [key for key in self._labels if blocks.has(key)]
        await gather([self._labels[key]() for key in labels])
        for key in labels:
            tally.add_label(key)

    async def _purge(self, request: BulkRequest) -> BulkAnswer:
        blocks = request.blocks
        if request.duration_ms:
            until_s = now_s() + request.duration_ms / 1000
            if not blocks.min_age_s:  # what arrives later is new
                self._node.purges.begin(blocks, until_s)
        tally = Tally()
        async for key, store, age_s in self._matching(blocks):
            tally.count(key, store, age_s)
            store.remove(key.name)
        if not blocks.min_age_s:
            self._forget_deferred(blocks)
        self._node.network.empty_cache()
        for store in self._node.stores:
            await store.tiers.flush()
        total = sum(family.blocks for family in tally.families.values())
        if total:
            _log.warning("a purge has dropped %d blocks here", total)
        return tally.answer()

    def _forget_deferred(self, blocks: BlockFilter) -> None:
        """Forget the producers of blocks that this node is home to."""
        for name in self._node.store.index.names():
            key = _key_of(name)
            if key is not None and blocks.has(key):
                self._node.store.forget(name)

    def _hold(self, name: str, store: LocalStore, lease_ms: int) -> bool:
        if not lease_ms:
            store.unpin(name, OPERATOR)
            return True
        return store.pin(name, OPERATOR, lease_ms / 1000, now_s())

    async def _matching(
        self, blocks: BlockFilter
    ) -> AsyncIterator[tuple[BlockKey, LocalStore, float]]:
        """The blocks of each store, with their ages in seconds; others run in between."""
        for store in self._node.stores:
            disk = store.tiers.disk
            names = dict.fromkeys(store.tiers.memory.names())
            names |= dict.fromkeys(() if disk is None else disk.names())
            for count, name in enumerate(names, 1):
                if count % _NAMES_AT_A_TIME == 0:
                    await asyncio.sleep(0)
                key = _key_of(name)
                if key is None or not blocks.has(key) or store.tier(name) is None:
                    continue
                age_s = now_s() - min(entry.since_s for entry in store.tiers.entries(name))
                if age_s >= blocks.min_age_s:
                    yield key, store, age_s


def _key_of(name: str) -> BlockKey | None:
    """A block's key; ``None``: the name is another one, such as an announcement's."""
    try:
        return BlockKey.parse(name)
    except KVError:
        return None
