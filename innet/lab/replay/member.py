"""One host of a replay, in its pool."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from innet.kv.names import NO_MODEL_DIGEST, BlockFamily, BlockKey
from innet.kv.pool import BlockPool
from innet.kv.pool.network import BlockNetwork
from innet.lab.replay.contents import SyntheticContents
from innet.lab.replay.plan import ReplayPlan


def replay_key(tenant: str, block: bytes) -> BlockKey:
    """The key of a trace's block; ``tenant`` is the component of names."""
    return BlockKey(BlockFamily(tenant, NO_MODEL_DIGEST, "replay", 0, 1), block)


@asynccontextmanager
async def replay_pool(
    network: BlockNetwork, plan: ReplayPlan, contents: SyntheticContents
) -> AsyncIterator[BlockPool]:
    """The pool of a host as the plan has it, open until the end of the block."""
    room_bytes = await _room_bytes(network, contents)
    local, offered = plan.stores(network.node, room_bytes)
    pool = BlockPool(network, local=local, offered=offered, settings=plan.pool_settings)
    async with pool:
        yield pool


async def _room_bytes(network: BlockNetwork, contents: SyntheticContents) -> int:
    """What a tier counts for a block: with its manifest, which is as long for all of them."""
    key = replay_key(network.tenant, bytes(32))
    root = (await network.publish(key.name, contents.of(key.block_hash))).root
    network.withdraw(key.name)
    return contents.size_bytes + len(root)
