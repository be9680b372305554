"""Pins, leases and evictions of a pool's blocks."""

from __future__ import annotations

import asyncio

import pytest

from innet.kv.pool import MemoryTier, PoolSettings, TieredStore
from innet.kv.pool.network import Sealed
from innet.kv.pool.served import ServedBlocks
from innet.kv.pool.store import LocalStore
from tests.kv.fake_network import FakeFabric
from tests.kv.pools import ROOM, Pools, contents, key, with_pools


@pytest.fixture
def store() -> LocalStore:
    served = ServedBlocks(FakeFabric({"h0": 1}).network("h0"))
    settings = PoolSettings(longest_lease_s=100)
    return LocalStore(TieredStore(MemoryTier(4 * ROOM)), served, settings)


async def test_a_lease_ends_at_its_time_unless_it_is_renewed(store: LocalStore) -> None:
    for name in ("once", "renewed"):
        store.put(name, Sealed(contents(0), b""), 0)
        assert store.pin(name, "user", 10, at_s=0)
    assert store.pin("renewed", "user", 1e9, at_s=5)
    assert not store.pin("elsewhere", "user", 10, at_s=5)
    ends = []
    for at_s in (9.9, 10, 104.9, 105):
        store.expire_leases(at_s)
        ends.append([store.drop(name, "other") for name in ("once", "renewed")])
    assert ends == [[False, False], [True, False], [True, False], [True, True]]
    assert store.next_lease_end_s == float("inf")


async def test_a_lease_that_was_renewed_often_ends_once(store: LocalStore) -> None:
    store.put("block", Sealed(contents(0), b""), 0)
    for at_s in range(1000):
        assert store.pin("block", "user", 10, at_s)
    assert store.next_lease_end_s > 900
    store.expire_leases(1008)
    assert not store.drop("block", "other")
    store.expire_leases(1009)
    assert store.drop("block", "other")


def test_pinned_blocks_stay_until_their_lease_ends() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(0)
        assert await pools["user"].pin([key(0), key(7)], 60) == [True, False]
        await pools.put(*range(1, 8))
        assert await pools.got(0)
        assert await pools["other"].evict([key(0)]) == [False]
        assert await pools.got(0)
        await asyncio.sleep(61)
        await pools.put(*range(8, 16))
        assert not await pools.got(0)

    with_pools(work, members=1, blocks=4)


def test_pins_take_half_of_a_home_at_most_and_can_be_ended() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(4))
        keys = [key(n) for n in range(4)]
        assert await pools["user"].pin(keys[:2], 60) == [True, True]
        assert await pools["user"].pin(keys[2:], 60) == [False, False]
        # The same again takes no more room.
        assert await pools["user"].pin(keys[:2], 60) == [True, True]
        assert await pools["other"].pin(keys[:2], 60) == [True, True]
        await pools["user"].unpin(keys)
        assert await pools["user"].pin(keys[2:], 60) == [False, False]
        await pools["other"].unpin(keys)
        assert await pools["user"].pin(keys[2:], 60) == [True, True]
        assert pools["h0"].statistics().tiers["home memory"].pinned_bytes == 2 * ROOM

    with_pools(work, members=1, blocks=4)


def test_a_lease_is_limited_to_the_longest() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(0)
        assert await pools["user"].pin([key(0)], 1e9) == [True]
        await asyncio.sleep(601)
        assert pools["h0"].statistics().tiers["home memory"].pinned_bytes == 0

    with_pools(work, members=1)


def test_evicting_a_block_removes_it_from_all_homes_and_locally() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1, 2)
        assert await pools["user"].pin([key(1)], 60) == [True]
        assert await pools["user"].evict([key(1), key(3)]) == [True, True]
        assert not await pools.got(1)
        assert not await pools.got(1, at="user")
        assert await pools.got(2)

    with_pools(work, local_blocks=4, settings=PoolSettings(replicas=2))


def test_private_blocks_of_a_member_cannot_be_pinned_by_others() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(0)
        [home] = pools.serving(0)
        [member] = set(pools.fabric.members) - {home}
        assert await pools.got(0, at=member)
        del pools.fabric.members[home]
        assert await pools[member].pin([key(0)], 60) == [True]
        assert await pools["other"].pin([key(0)], 60) == [False]
        assert not await pools.got(0)

    with_pools(work, members=2, local_blocks=4)
