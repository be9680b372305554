"""What timeouts are of, on a link that is slow for all blocks of a call: the pool's is of each
block, that of a call is of the call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import numpy as np
import pytest

from innet.kv.names import BlockFamily, BlockKey
from innet.kv.pool import BlockPool, Cause, MemoryTier, PoolSettings, TieredStore
from innet.kv.pool.waiting import now_s
from innet.lab.simulation import Simulation
from innet.lab.simulation.pools import SimulatedPools
from innet.topology import load_topology

BLOCKS, BLOCK_BYTES = 96, 64 << 10
RATE_BPS = 20e6
ALL_S = BLOCKS * BLOCK_BYTES * 8 / RATE_BPS
TIMEOUT_S = ALL_S / 4
SETTINGS = PoolSettings(timeout_s=TIMEOUT_S, put_timeout_s=2 * ALL_S, window=2)

Work = Callable[[BlockPool, Sequence[BlockKey]], Awaitable[None]]


def on_a_slow_link(work: Work) -> None:
    """Run ``work`` at a host whose home has all blocks."""
    with Simulation(load_topology("star:2").with_overrides(rate_bps=RATE_BPS), seed=5) as sim:
        pools = SimulatedPools(sim)
        tenant = pools.tenant("acme")
        family = BlockFamily(tenant.component, "00ff", "raw", 0, 1)
        keys = [BlockKey(family, number.to_bytes(32, "big")) for number in range(BLOCKS)]
        blocks = [(key, np.full(BLOCK_BYTES, n, np.uint8)) for n, key in enumerate(keys)]
        room = 2 * BLOCKS * BLOCK_BYTES

        async def whole() -> None:
            async with (
                pools.open("h0", tenant, capacity_bytes=room) as home,
                pools.open("h1", tenant) as user,
                BlockPool(
                    home,
                    local=TieredStore(MemoryTier(0)),
                    offered=TieredStore(MemoryTier(room)),
                    settings=SETTINGS,
                ) as at_home,
                BlockPool(user, local=TieredStore(MemoryTier(room)), settings=SETTINGS) as pool,
            ):
                await at_home.put_many(blocks)
                began_s = now_s()
                await work(pool, keys)
                # A cache on the way has nothing yet, so all came over the slow link.
                assert now_s() - began_s > TIMEOUT_S / 2

        sim.run(whole())


async def get_many(pool: BlockPool, keys: Sequence[BlockKey]) -> int:
    return sum(each is not None for each in await pool.get_many(keys))


async def get_each(pool: BlockPool, keys: Sequence[BlockKey]) -> int:
    return sum(each is not None for each in await asyncio.gather(*map(pool.get, keys)))


async def get_each_twice(pool: BlockPool, keys: Sequence[BlockKey]) -> int:
    return min(await asyncio.gather(get_each(pool, keys), get_many(pool, keys)))


async def prefetch(pool: BlockPool, keys: Sequence[BlockKey]) -> int:
    return sum(await pool.prefetch(keys))


@pytest.mark.parametrize("load", [get_many, get_each, get_each_twice, prefetch])
def test_all_blocks_of_a_call_arrive_however_long_that_takes(
    load: Callable[[BlockPool, Sequence[BlockKey]], Awaitable[int]],
) -> None:
    async def work(pool: BlockPool, keys: Sequence[BlockKey]) -> None:
        began_s = now_s()
        assert await load(pool, keys) == BLOCKS
        assert pool.statistics().misses == {}
        assert now_s() - began_s > 2 * TIMEOUT_S

    on_a_slow_link(work)


def test_a_timeout_of_a_call_ends_it_with_what_has_arrived() -> None:
    async def work(pool: BlockPool, keys: Sequence[BlockKey]) -> None:
        began_s = now_s()
        found = await pool.get_many(keys, timeout_s=ALL_S / 2)
        assert now_s() - began_s == pytest.approx(ALL_S / 2)
        arrived = sum(each is not None for each in found)
        assert BLOCKS / 4 < arrived < BLOCKS / 2
        assert pool.statistics().misses == {Cause.LATE: BLOCKS - arrived}

    on_a_slow_link(work)


def test_lookups_beside_loads_find_all_blocks() -> None:
    async def work(pool: BlockPool, keys: Sequence[BlockKey]) -> None:
        loading = asyncio.ensure_future(pool.get_many(keys))
        await asyncio.sleep(0)
        assert all(await pool.exists_many(keys))
        assert await pool.count_prefix(keys) == BLOCKS
        await loading

    on_a_slow_link(work)
