"""Homes that are only told of a block get it when somebody asks, from who has it."""

from __future__ import annotations

import asyncio

import pytest

from innet.errors import KVError
from innet.kv.pool import BlockPool, MemoryTier, Place, PoolSettings, TieredStore
from tests.kv.fake_network import FakeFabric
from tests.kv.pools import Pools, key, with_pools

WHEN_ASKED = PoolSettings(puts="when-asked", keeps_fetched=False)


def test_a_block_that_nobody_asks_for_stays_where_it_was_put() -> None:
    async def work(pools: Pools) -> None:
        assert await pools.put(1, 2, 3) == [1, 1, 1]
        assert not any("/request/" not in name for name in pools.fabric.nodes["user"].fetched)
        assert pools.serving(1) == ["user"]

    with_pools(work, local_blocks=10, settings=WHEN_ASKED)


def test_a_hot_block_leaves_its_producer_once_however_many_ask() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1)
        askers = [node for node in pools.pools if node != "user"]
        assert all(await asyncio.gather(*(pools.got(1, at=node) for node in askers)))
        assert all(await asyncio.gather(*(pools.got(1, at=node) for node in askers)))
        assert pools.fabric.nodes["user"].fetched.count(key(1).name) == 1

    with_pools(work, members=14, local_blocks=10, settings=WHEN_ASKED)


def test_what_its_producer_has_dropped_is_a_miss_at_once_and_again() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1, 2, 3)
        begin_s = asyncio.get_running_loop().time()
        assert [await pools.got(n) for n in (1, 2, 3)] == [False, True, True]
        assert not await pools.got(1)
        assert asyncio.get_running_loop().time() - begin_s < 0.1

    with_pools(work, local_blocks=2, settings=WHEN_ASKED)


def test_a_home_that_had_to_drop_a_block_gets_it_again() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1, 2)
        for number in (1, 2, 1):
            assert await pools.got(number)
        assert pools.fabric.nodes["user"].fetched.count(key(1).name) == 2

    with_pools(work, members=1, blocks=1, local_blocks=10, settings=WHEN_ASKED)


def test_who_asks_gets_what_its_home_has_no_room_for() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1, 2)
        for _ in range(3):
            assert await pools.got(1)  # asked for so often, it goes for no new block
        for _ in range(2):
            assert await pools.got(2)
            assert await pools.got(2, at="h0")
            await asyncio.sleep(2 * WHEN_ASKED.answer_s)
            assert pools.serving(2) == ["user"]
        assert pools.fabric.nodes["user"].fetched.count(key(2).name) == 2
        assert pools.fabric.nodes["user"].fetched.count(key(1).name) == 1

    with_pools(work, members=1, blocks=1, local_blocks=10, settings=WHEN_ASKED, policy="lfu")


def test_the_home_itself_finds_what_it_was_told_of() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1)
        assert await pools.got(1, at="h0")
        assert await pools["h0"].exists(key(1))
        assert pools["h0"].statistics().hits == {Place.PRODUCER: 1}

    with_pools(work, members=1, local_blocks=10, settings=WHEN_ASKED)


def test_a_producer_that_died_is_waited_for_once_and_its_homes_are_not_taken_for_dead() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(6))
        pools.fabric.nodes["user"].alive = False
        for _ in range(2):
            assert not await pools.got(0)
        begin_s = asyncio.get_running_loop().time()
        assert not any([await pools.got(n) for n in range(6)])
        assert asyncio.get_running_loop().time() - begin_s < 0.1
        pools.fabric.nodes["user"].alive = True
        await pools.put(7, at="h0")
        assert await pools.got(7)

    with_pools(work, members=1, local_blocks=10, settings=WHEN_ASKED)


def test_a_producer_that_was_late_once_still_has_its_blocks() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(6))
        pools.fabric.nodes["user"].alive = False
        assert not await pools.got(0)
        pools.fabric.nodes["user"].alive = True
        assert all([await pools.got(n) for n in range(6)])

    with_pools(work, members=1, local_blocks=10, settings=WHEN_ASKED)


def test_a_block_that_is_late_while_others_come_costs_no_other() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(6))
        user = pools.fabric.nodes["user"]
        lost = user.serves.pop(key(0).name)
        user.expected.add(key(0).name)
        waiting = asyncio.ensure_future(pools.got(0))
        await asyncio.sleep(WHEN_ASKED.timeout_s / 4)
        assert await pools.got(1)
        assert not await waiting
        assert all([await pools.got(n) for n in range(2, 6)])
        user.expected.discard(key(0).name)
        user.serves[key(0).name] = lost
        assert await pools.got(0)

    with_pools(work, members=1, local_blocks=10, settings=WHEN_ASKED)


def test_a_producer_that_is_late_again_and_again_is_forgotten() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(3))
        pools.fabric.nodes["user"].alive = False
        for _ in range(5):
            assert not await pools.got(0)
            await asyncio.sleep(WHEN_ASKED.leave_out_s)
        pools.fabric.nodes["user"].alive = True
        assert not any([await pools.got(n) for n in range(3)])

    with_pools(work, members=1, local_blocks=10, settings=WHEN_ASKED)


def test_without_memory_of_its_own_a_producer_brings_its_blocks_home_at_once() -> None:
    async def work(pools: Pools) -> None:
        assert await pools.put(1) == [1]
        assert pools.serving(1) == ["h0"]
        assert await pools.got(1)

    with_pools(work, members=1, local_blocks=0, settings=WHEN_ASKED)


def test_forged_blocks_are_kept_by_no_home() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1)
        pools.fabric.nodes["user"].forges = True
        assert not await pools.got(1)
        assert pools.serving(1) == ["user"]

    with_pools(work, members=1, local_blocks=10, settings=WHEN_ASKED)


def test_what_was_evicted_is_asked_of_nobody() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1)
        assert await pools["user"].evict([key(1)]) == [True]
        assert not await pools.got(1)
        assert key(1).name not in pools.first_home(1).expected

    with_pools(work, local_blocks=10, settings=WHEN_ASKED)


def test_a_pin_brings_the_block_home() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1)
        assert await pools["other"].pin([key(1)], 60) == [True]
        assert sorted(pools.serving(1)) == ["h0", "user"]

    with_pools(work, members=1, local_blocks=10, settings=WHEN_ASKED)


def test_who_keeps_nothing_fetched_asks_again() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1)
        assert await pools.got(1)
        assert await pools.got(1)
        assert pools.first_home(1).fetched.count(key(1).name) == 2

    with_pools(work, local_blocks=10, settings=WHEN_ASKED)


def test_what_its_home_has_got_is_the_first_that_a_producer_without_offered_memory_drops() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1, 2)
        assert await pools.got(2)
        await pools.put(3)
        assert [pools["user"].here(key(n)) for n in (1, 2, 3)] == [True, False, True]
        assert all([await pools.got(n) for n in (1, 2, 3)])

    with_pools(work, members=2, local_blocks=2, settings=WHEN_ASKED)


def test_a_member_keeps_what_it_has_put_when_others_have_loaded_it() -> None:
    async def work(pools: Pools) -> None:
        first, second, third = [
            n for n in range(40) if pools.first_home(n) is pools.fabric.nodes["h1"]
        ][:3]
        await pools.put(first, second, at="h0")
        assert await pools.got(first)
        await pools.put(third, at="h0")
        assert [pools["h0"].here(key(n)) for n in (first, second, third)] == [True, False, True]
        assert pools["h0"].statistics().delivered == 1
        assert pools["h0"].statistics().tiers["shared memory"].blocks == 2

    with_pools(work, members=2, blocks=2, settings=WHEN_ASKED)


def test_one_store_for_both_is_refused_where_puts_go_to_homes_at_once() -> None:
    store = TieredStore(MemoryTier(1 << 20))
    network = FakeFabric({"h0": 1 << 20}).network("h0")
    with pytest.raises(KVError, match="one store cannot be both"):
        BlockPool(network, local=store, offered=store)


def test_a_copy_of_what_others_keep_goes_before_what_is_nowhere_else() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1)
        assert await pools.got(1)
        assert await pools.got(1)
        assert pools["other"].statistics().hits == {Place.NETWORK: 1, Place.LOCAL_MEMORY: 1}
        await pools.put(2, 3, at="other")
        assert [pools["other"].here(key(n)) for n in (2, 3)] == [True, True]
        assert await pools.got(1)
        assert pools["other"].statistics().hits[Place.NETWORK] == 2
        assert [pools["other"].here(key(n)) for n in (2, 3)] == [True, True]

    with_pools(work, local_blocks=2, settings=PoolSettings(puts="when-asked"))
