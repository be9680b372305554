"""Blocks that a node announces before it puts them, and that others wait for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from innet.errors import KVError
from innet.kv.events.source import BlockEvents
from innet.kv.pool import Cause, Place, PoolSettings
from innet.kv.pool.announcements import Announcement, announcement_key
from innet.kv.pool.store import Tier
from innet.kv.pool.waiting import now_s
from tests.kv.fake_network import TENANT
from tests.kv.pools import Disks, Pools, contents, key, with_pools

KEYS = [key(n) for n in range(6)]


async def awaited(pools: Pools, number: int, timeout_s: float = 5.0) -> Place | Cause:
    """Where ``other`` found a block that ``user`` has announced, or why not; bytes are right."""
    found, how = await pools["other"].look_up(key(number), timeout_s=timeout_s, producer="user")
    assert found is None or np.array_equal(found, contents(number))
    return how


def test_announced_blocks_are_awaited_and_come_from_their_producer() -> None:
    async def work(pools: Pools) -> None:
        following = asyncio.ensure_future(
            pools["other"].announcements.follow("r1", timeout_s=5.0)
        )  # begins before the announcement
        await asyncio.sleep(0.1)
        assert await pools["user"].announcements.announce("r1", KEYS) == 1
        assert await following == Announcement("user", tuple(KEYS))
        waiting = [asyncio.ensure_future(awaited(pools, n)) for n in range(4)]
        await asyncio.sleep(0.5)
        assert not any(each.done() for each in waiting)
        await pools.put(0)
        assert await waiting[0] is Place.PRODUCER
        assert not waiting[1].done()
        await pools.put(1, 2, 3)
        assert [await each for each in waiting[1:]] == [Place.PRODUCER] * 3
        assert await awaited(pools, 0) is Place.NETWORK  # later, from its home

    with_pools(work)


def test_requesters_of_withdrawn_blocks_miss_them_at_once() -> None:
    async def work(pools: Pools) -> None:
        announcements = pools["user"].announcements
        await announcements.announce("r1", KEYS)
        await announcements.announce("r2", KEYS[:1])
        waiting = [asyncio.ensure_future(awaited(pools, n)) for n in range(2)]
        await asyncio.sleep(0.1)
        begin_s = now_s()
        announcements.withdraw("r1")
        assert await waiting[1] is Cause.ABSENT
        assert now_s() - begin_s < 0.1
        assert not waiting[0].done()  # another request has announced it
        announcements.withdraw("r2")
        assert await waiting[0] is Cause.ABSENT

    with_pools(work)


def test_a_lease_that_ends_withdraws_what_was_not_put() -> None:
    async def work(pools: Pools) -> None:
        await pools["user"].announcements.announce("r1", KEYS, lease_s=2.0)
        waiting = asyncio.ensure_future(awaited(pools, 1, timeout_s=60.0))
        await pools.put(0)
        assert await waiting is Cause.ABSENT
        assert now_s() < 2.1
        assert await pools.got(0)

    with_pools(work)


def test_blocks_of_a_dead_producer_come_from_homes_or_are_late() -> None:
    async def work(pools: Pools) -> None:
        await pools["user"].announcements.announce("r1", KEYS)
        waiting = [asyncio.ensure_future(awaited(pools, n)) for n in range(2)]
        await asyncio.sleep(0.1)
        await pools.put(0, at="h0")
        pools.fabric.nodes["user"].alive = False
        assert await waiting[0] is Place.NETWORK
        assert now_s() < 2.0
        assert await waiting[1] is Cause.LATE
        assert now_s() == pytest.approx(5.0, abs=0.1)
        pools.fabric.nodes["user"].reachable = False
        assert await awaited(pools, 1) is Cause.ABSENT

    with_pools(work)


def test_a_requester_that_is_cancelled_costs_no_other() -> None:
    async def work(pools: Pools) -> None:
        await pools["user"].announcements.announce("r1", KEYS)
        waiting = [asyncio.ensure_future(awaited(pools, 0)) for _ in range(2)]
        await asyncio.sleep(0.1)
        waiting[0].cancel()
        await pools.put(0)
        assert await waiting[1] is Place.PRODUCER

    with_pools(work)


def test_a_put_that_waits_for_others_is_not_withdrawn_unless_it_is_cancelled() -> None:
    async def work(pools: Pools) -> None:
        announcements = pools["user"].announcements
        await announcements.announce("r1", KEYS)
        waiting = [asyncio.ensure_future(awaited(pools, n)) for n in range(6)]
        home = pools.fabric.nodes["h0"]
        home.alive = False
        putting = [asyncio.ensure_future(pools.put(n)) for n in range(6)]  # four at a time
        await asyncio.sleep(0.1)
        announcements.withdraw("r1")
        putting[5].cancel()
        home.alive = True
        home.change()
        assert await waiting[4] is Place.PRODUCER
        assert await waiting[5] is Cause.ABSENT
        await asyncio.gather(*putting[:5])

    with_pools(work, members=1, settings=PoolSettings(window=1))


def test_blocks_at_their_home_are_served_and_evicted_whatever_is_announced(tmp_path: Path) -> None:
    async def work(pools: Pools) -> None:
        await pools.put(0, 1, at="h0")  # 0 moves to the disk
        announcements = pools["h0"].announcements
        await announcements.announce("r1", KEYS[:3])
        await pools.put(2, at="h0")
        announcements.withdraw("r1")
        assert all([await pools.got(n) for n in range(3)])
        await pools["h0"].evict(KEYS[:3])
        assert not await pools.got(2)
        assert now_s() < 1.0

    with_pools(work, members=1, blocks=1, disks=Disks(tmp_path))


def test_without_an_announcement_there_is_none() -> None:
    async def work(pools: Pools) -> None:
        assert await pools["other"].announcements.follow("r1", timeout_s=1.0) is None
        assert now_s() == pytest.approx(1.0, abs=0.1)
        announcements = pools["user"].announcements
        await announcements.announce("r1", KEYS)
        with pytest.raises(KVError, match="announced the request 'r1'"):
            await announcements.announce("r1", KEYS)
        with pytest.raises(KVError, match="lease"):
            await announcements.announce("r2", KEYS, lease_s=0)

    with_pools(work)


def test_other_contents_are_no_announcement() -> None:
    assert Announcement.decode(contents(1)) is None
    announced = Announcement("h0", tuple(KEYS))
    assert Announcement.decode(announced.encoded()) == announced


def test_announcements_are_no_blocks_of_a_model() -> None:
    events = BlockEvents("h0")
    events.on_tier(0, announcement_key(TENANT, "r1").name, Tier.MEMORY)
    assert not events.streams
