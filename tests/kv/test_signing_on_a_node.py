"""Blocks that are signed by a real node, which reports that with another completion, or alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from innet._native import _core
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.node_network import NetworkOptions, NodeBlockNetwork
from innet.kv.pool import BlockPool, MemoryTier, TieredStore
from innet.kv.tenant import Tenant
from innet.kv.worker_network import LoopHost
from innet.security import deal_keys
from innet.worker.collector import AskedObjects, LoopCollector

HOST = "h0"
TENANT = Tenant("acme", b"a secret of this node alone")
BLOCK = BlockKey(BlockFamily(TENANT.component, "00ff", "raw", 0, 1), bytes(32))
CONTENTS = np.arange(200, dtype=np.uint8)
MEMBERS = {HOST: 1 << 20}
SOON_S = 20.0


async def members() -> dict[str, int]:
    return MEMBERS


@asynccontextmanager
async def network() -> AsyncIterator[NodeBlockNetwork]:
    """On a node that nobody else sends anything."""
    keys = deal_keys([HOST], "gmac")[HOST]
    settings = _core.NodeSettings()
    settings.own_name = f"/n/{HOST}"
    node = _core.Node(settings, keys.signing_key(), keys.trusted_keys())
    node.start()
    host = LoopHost(node, AskedObjects(node))
    made = NodeBlockNetwork(
        HOST,
        host,
        TENANT,
        members,
        NetworkOptions(packet_bytes=1400, process=0, distance=lambda _: 1),
    )
    try:
        await made.start()
        yield made
        await asyncio.wait_for(made.stop(), SOON_S)
    finally:
        host.collector.close()
        node.stop("the test is over")


async def test_who_waits_for_a_signature_alone_has_it() -> None:
    async with network() as made:
        block = await asyncio.wait_for(made.publish(BLOCK.name, CONTENTS), SOON_S)
        assert np.array_equal(block.contents, CONTENTS)


async def test_a_network_is_closed_whoever_has_given_a_signature_up() -> None:
    async with network() as made:
        signed = made.publish(BLOCK.name, CONTENTS)
        signed.cancel()
    assert signed.cancelled()


async def test_a_fetch_that_is_given_up_ends_on_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []
    monkeypatch.setattr(LoopCollector, "cancel", lambda _, operation: ended.append(operation))
    async with network() as made:

        async def fetch() -> None:
            await made.fetch(BLOCK.name, "h1", 2 * SOON_S)

        fetching = asyncio.ensure_future(fetch())
        await asyncio.sleep(0)
        assert not ended
        fetching.cancel()
        await asyncio.wait([fetching])
        assert len(ended) == 1
        monkeypatch.undo()


async def test_a_home_puts_a_block_that_is_its_own_and_lets_go_of_one_that_was_given_up() -> None:
    tiers = TieredStore(MemoryTier(MEMBERS[HOST]))
    local = TieredStore(MemoryTier(0))
    async with network() as made, BlockPool(made, local=local, offered=tiers) as pool:
        given_up = asyncio.ensure_future(pool.put(BLOCK, CONTENTS))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait([given_up])
        assert await asyncio.wait_for(pool.put(BLOCK, CONTENTS), SOON_S) == 1
        assert await pool.evict([BLOCK]) == [True]
