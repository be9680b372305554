"""Pools at some nodes of a fake network, for tests of what they do together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from innet._native import _core
from innet.kv.eviction import PolicyName
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.pool import BlockPool, DiskTier, MemoryTier, PoolSettings, TieredStore
from innet.kv.pool.block_database import record_bytes
from innet.kv.pool.network import Contents
from innet.kv.pool.peers import Placement
from tests.kv.fake_network import TENANT, FakeFabric, Node, Result, run

SIZE = 1000
ROOT_BYTES = 32
ROOM = SIZE + ROOT_BYTES + _core.BOOKKEEPING_BYTES
FAMILY = BlockFamily(TENANT, "00ff", "raw", 0, 1)


def key(number: int) -> BlockKey:
    return BlockKey(FAMILY, number.to_bytes(32, "big"))


def contents(number: int) -> Contents:
    return np.random.default_rng(number).integers(0, 256, SIZE, np.uint8)


class InlineDisk:
    """A :class:`DiskWork` in the event loop: for virtual time, in which a disk takes none."""

    async def run(self, work: Callable[[], Result]) -> Result:
        return work()

    def close(self) -> None:
        """There is nothing to close."""


@dataclass(frozen=True)
class Disks:
    """A disk for each node, beside its memory.

    Attributes:
        folder: of all disks.
        blocks: that each has room for.
        is_saved: it gets what is in memory at the end.
    """

    folder: Path
    blocks: int = 100
    is_saved: bool = False

    async def tier(self, name: str) -> DiskTier:
        """A node's disk."""
        capacity_bytes = self.blocks * record_bytes(key(0).name, ROOT_BYTES, SIZE)
        return await DiskTier.open(self.folder / name, capacity_bytes, work=InlineDisk())


class Pools:
    """A pool at each node, by the node's name."""

    def __init__(self, fabric: FakeFabric, pools: dict[str, BlockPool]) -> None:
        self.fabric = fabric
        self.pools = pools

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
    disks: Disks | None = None,
    settings: PoolSettings | None = None,
    tenant: str = TENANT,
    policy: PolicyName = "lru",
) -> None:
    """Run ``work`` with pools at ``user`` and ``other``, and at members ``h0`` and so on.

    Args:
        work: what to do with them.
        members: how many.
        blocks: that a member's memory has room for.
        local_blocks: that each node keeps in memory for itself; members have one store, of
            ``blocks``, where puts are brought home when asked.
        disks: behind whatever memory a node has.
        settings: of all pools.
        tenant: whose they are.
        policy: of all memory.
    """

    async def tiers(name: str, capacity_bytes: int, disks: Disks | None) -> TieredStore:
        disk = None if disks is None else await disks.tier(name)
        is_saved = disks is not None and disks.is_saved
        return TieredStore(MemoryTier(capacity_bytes, policy), disk, is_saved)

    async def local_tiers(node: str) -> TieredStore:
        return await tiers(f"{node}-local", local_blocks * ROOM, disks if local_blocks else None)

    async def offered_tiers(node: str) -> TieredStore | None:
        size = offered_bytes.get(node)
        return None if size is None else await tiers(node, size, disks)

    offered_bytes = {f"h{i}": blocks * ROOM for i in range(members)}

    async def whole() -> None:
        fabric = FakeFabric(offered_bytes, others=("user", "other"), tenant=tenant)
        pools = {}
        for node in fabric.nodes:
            offered = await offered_tiers(node)
            shares = settings is not None and settings.shares_store
            local = offered if shares and offered is not None else await local_tiers(node)
            pools[node] = BlockPool(
                fabric.network(node), local=local, offered=offered, settings=settings
            )
        async with AsyncExitStack() as stack:
            for pool in pools.values():
                await stack.enter_async_context(pool)
            await work(Pools(fabric, pools))
        assert not any(node.serves or node.expected for node in fabric.nodes.values())

    run(whole())
