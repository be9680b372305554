"""Pools at some nodes of a fake network, for tests of what they do together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import numpy as np

from innet.kv.names import BlockFamily, BlockKey
from innet.kv.placement import Placement
from innet.kv.pool import BlockPool, MemoryTier, PoolSettings, TieredStore
from innet.kv.pool.network import Contents
from tests.kv.fake_network import TENANT, FakeFabric, Node, run

SIZE = 1000
ROOM = SIZE + 32
FAMILY = BlockFamily(TENANT, "00ff", "raw", 0, 1)


def key(number: int) -> BlockKey:
    return BlockKey(FAMILY, number.to_bytes(32, "big"))


def contents(number: int) -> Contents:
    return np.random.default_rng(number).integers(0, 256, SIZE, np.uint8)


class Pools:
    """A pool at each node, by the node's name."""

    def __init__(self, fabric: FakeFabric, settings: PoolSettings, local_blocks: int) -> None:
        self.fabric = fabric
        self.pools = {
            node: BlockPool(
                fabric.network(node),
                local=TieredStore(MemoryTier(local_blocks * ROOM)),
                offered=TieredStore(MemoryTier(fabric.members.get(node, 0))),
                settings=settings,
            )
            for node in fabric.nodes
        }

    def __getitem__(self, node: str) -> BlockPool:
        return self.pools[node]

    async def put(self, *numbers: int, at: str = "user") -> list[int]:
        """Put blocks at a node."""
        return await self[at].put_many([(key(n), contents(n)) for n in numbers])

    async def got(self, number: int, *, at: str = "other", timeout_s: float = 5.0) -> bool:
        """Whether a node gets a block; it is the right one then."""
        got = await self[at].get(key(number), timeout_s=timeout_s)
        assert got is None or np.array_equal(got, contents(number))
        return got is not None

    def first_home(self, number: int) -> Node:
        """The home that is asked first."""
        [home] = Placement(self.fabric.members).homes(key(number).block_hash)
        return self.fabric.nodes[home]

    def serving(self, number: int) -> list[str]:
        """Nodes that serve the block."""
        return [n for n, node in self.fabric.nodes.items() if key(number).name in node.serves]


def with_pools(
    work: Callable[[Pools], Awaitable[None]],
    *,
    members: int = 3,
    blocks: int = 100,
    local_blocks: int = 0,
    settings: PoolSettings | None = None,
) -> None:
    """Run ``work`` with pools at ``user`` and ``other``, and at members ``h0`` and so on."""

    async def whole() -> None:
        fabric = FakeFabric(
            {f"h{i}": blocks * ROOM for i in range(members)}, others=("user", "other")
        )
        pools = Pools(fabric, settings or PoolSettings(), local_blocks)
        async with AsyncExitStack() as stack:
            for pool in pools.pools.values():
                await stack.enter_async_context(pool)
            await work(pools)
        assert not any(node.serves or node.expected for node in fabric.nodes.values())

    run(whole())
