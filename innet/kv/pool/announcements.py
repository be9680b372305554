"""Announcements of blocks that a node will put for a request, so that others wait for them."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from innet.errors import KVError
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.pool.home import Home
from innet.kv.pool.network import Cause, Contents
from innet.kv.pool.pool_node import PoolNode
from innet.kv.pool.transfers import BlockTransfers, Found, NewBlock
from innet.kv.pool.waiting import TimeLimit, count_to_gap, gather, is_seconds, now_s

DEFAULT_LEASE_S: Final = 60.0
_PAUSE_S: Final = 0.02
"""Polling interval of an announcement that does not exist yet."""
_DIGEST: Final = hashlib.sha256(b"announcement").hexdigest()[:32]
ANNOUNCEMENT_LAYOUT: Final = "announcement"
"""Stands for a layout in the names of announcements."""


@dataclass(frozen=True)
class Announcement:
    """The blocks that a producer is going to put for a request.

    Attributes:
        producer: the node that puts them.
        keys: of the blocks.
    """

    producer: str
    keys: tuple[BlockKey, ...]

    def encoded(self) -> Contents:
        """A JSON object: ``{"producer": "h0", "blocks": ["/kv/a1b2/00ff/bf16/0-31/00…"]}``."""
        document = {"producer": self.producer, "blocks": [key.name for key in self.keys]}
        return np.frombuffer(json.dumps(document).encode(), np.uint8)

    @classmethod
    def decode(cls, contents: Contents) -> Announcement | None:
        """The announcement with these contents; ``None`` if they are not one."""
        try:
            found = json.loads(contents.tobytes())
            keys = tuple(BlockKey.parse(str(name)) for name in found["blocks"])
            return cls(str(found["producer"]), keys)
        except (ValueError, KeyError, TypeError, RecursionError, KVError):
            return None


def announcement_key(tenant: str, request: str) -> BlockKey:
    """The key of a request's announcement, which is a block of the pool."""
    family = BlockFamily(tenant, _DIGEST, ANNOUNCEMENT_LAYOUT, 0, 1)
    return BlockKey(family, hashlib.sha256(request.encode()).digest())


class Announcements:
    """Announces blocks of this node, and finds those of others.

    The announcement of a request is a block whose key both sides derive from the request's name.
    Requesters of an announced block wait at its producer until it is put or withdrawn.

    Example::

        await pool.announcements.announce("request-17", keys)       # the producer
        await pool.put_many(blocks)

        announced = await pool.announcements.follow("request-17", timeout_s=2.0)  # the consumer
        if announced is not None:
            contents = await pool.get(key, producer=announced.producer, timeout_s=2.0)
    """

    def __init__(self, node: PoolNode, home: Home, transfers: BlockTransfers) -> None:
        """
        Args:
            node: this node's part of the pool.
            home: this node as a home of blocks.
            transfers: of blocks.
        """
        self._node = node
        self._home = home
        self._transfers = transfers
        self._pending: Counter[str] = Counter()
        self._requests: dict[str, tuple[tuple[str, ...], asyncio.TimerHandle]] = {}

    async def announce(
        self, request: str, keys: Sequence[BlockKey], *, lease_s: float = DEFAULT_LEASE_S
    ) -> int:
        """Announce blocks that this node will put, so that others wait for them.

        Args:
            request: its name, which the tenant uses once.
            keys: of the blocks.
            lease_s: blocks that were not put by then are withdrawn.

        Returns:
            How many homes have the announcement: with 0, other members do not find it.

        Raises:
            KVError: this node has announced the request, it has no name, the lease is not above 0,
                or the pool is closed.
        """
        if request in self._requests:
            raise KVError(
                f"this node has announced the request {request!r}: withdraw it, or give each "
                "request a name of its own"
            )
        if not request:
            raise KVError("a request to announce has a name; give one, such as 'request-17'")
        if not is_seconds(lease_s) or not lease_s:
            raise KVError(f"a lease has a length in seconds above 0, not {lease_s!r}")
        network = self._node.network
        names = tuple(dict.fromkeys(key.name for key in keys if not self._is_here(key.name)))
        timer = asyncio.get_running_loop().call_later(lease_s, self.withdraw, request)
        self._requests[request] = names, timer
        for name in names:
            self._pending[name] += 1
            self._node.served.expect(name)
        contents = Announcement(network.node, tuple(keys)).encoded()
        key = announcement_key(network.tenant, request)
        try:
            [ends] = await self._transfers.put([(key, contents, 0)])
        except BaseException:
            self.withdraw(request)
            raise
        return ends.count(None)

    def withdraw(self, request: str) -> None:
        """Refuse the requesters of the request's blocks that were not put. Safe to call twice."""
        names, timer = self._requests.pop(request, ((), None))
        if timer is not None:
            timer.cancel()
        for name in names:
            if name not in self._pending:  # it was put
                continue
            self._pending[name] -= 1
            if not self._pending[name]:
                del self._pending[name]
                self._node.served.refuse(name)

    async def follow(self, request: str, *, timeout_s: float | None = None) -> Announcement | None:
        """The announcement of a request; ``None``: there was none within ``timeout_s``, by default
        that of the settings."""
        key = announcement_key(self._node.network.tenant, request)
        end_s = now_s() + (self._node.settings.timeout_s if timeout_s is None else timeout_s)
        while True:
            found = await self._transfers.load(key, TimeLimit(end_s))
            if isinstance(found, Found):
                return Announcement.decode(found.block.contents)
            left_s = end_s - now_s()
            if left_s <= 0:
                return None
            await asyncio.sleep(min(_PAUSE_S, left_s))

    async def count_prefix(self, keys: Sequence[tuple[str, BlockKey]], *, timeout_s: float) -> int:
        """How many blocks, from the first on, exist without a gap; announced ones are awaited.

        Args:
            keys: of a prompt's blocks, in order, each with the request for which it is announced.
            timeout_s: for all together.
        """
        end_s = now_s() + timeout_s
        requests = list(dict.fromkeys(request for request, _ in keys))
        found = await gather([self.follow(each, timeout_s=timeout_s) for each in requests])
        announced = dict(zip(requests, found, strict=True))

        async def absence(announced_key: tuple[str, BlockKey]) -> Cause | None:
            request, key = announced_key
            announcement = announced[request]
            if announcement is None:
                limit = TimeLimit(block_s=self._node.settings.timeout_s)
                return await self._transfers.absence(key, limit)
            where = await self._transfers.await_announced(key, announcement.producer, end_s)
            return where if isinstance(where, Cause) else None

        count, gap = await count_to_gap(keys, absence, self._node.settings.window)
        self._node.counts.count_lookup(count, gap, len(keys))
        return count

    def on_put(self, blocks: Sequence[NewBlock]) -> list[str]:
        """Return the names of the announced blocks among these: publishing them answers their
        waiting requesters."""
        if not self._pending:
            return []
        announced = [key.name for key, _, _ in blocks if self._pending.pop(key.name, 0) > 0]
        for name in announced:
            self._node.served.forget_expected(name)
        return announced

    def close(self) -> None:
        """End all leases."""
        for _, timer in self._requests.values():
            timer.cancel()
        self._requests.clear()
        self._pending.clear()

    def _is_here(self, name: str) -> bool:
        """Whether this node has the block, or knows its producer."""
        return self._home.has(name) or name in self._node.store.index
