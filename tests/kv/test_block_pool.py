"""A pool of blocks, with nodes that fail: who asks gets what was put, or nothing."""

from __future__ import annotations

import array
import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from innet.errors import KVError
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.pool import Cause, Place, PoolSettings, home
from innet.kv.pool.network import Contents, Sealed
from tests.kv.fake_network import FakeNetwork
from tests.kv.pools import ROOM, SIZE, Pools, contents, key, with_pools


def test_what_one_puts_another_gets() -> None:
    async def work(pools: Pools) -> None:
        assert await pools.put(*range(20)) == [1] * 20
        assert [await pools.got(n) for n in range(21)] == [True] * 20 + [False]
        statistics = pools["other"].statistics()
        assert statistics.hits == {Place.NETWORK: 20}
        assert statistics.misses == {Cause.ABSENT: 1}
        assert statistics.hit_bytes == 20 * SIZE

    with_pools(work)


def test_each_block_is_at_its_homes_alone_and_every_member_is_some_blocks_home() -> None:
    async def work(pools: Pools) -> None:
        assert await pools.put(*range(30)) == [2] * 30
        assert {len(pools.serving(n)) for n in range(30)} == {2}
        assert {home for n in range(30) for home in pools.serving(n)} == {"h0", "h1", "h2"}

    with_pools(work, settings=PoolSettings(replicas=2))


def test_members_use_the_pool_as_others_do() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(10), at="h0")
        assert all([await pools.got(n, at="h1") for n in range(10)])
        hits = pools["h1"].statistics().hits
        assert hits[Place.HOME_MEMORY] > 0
        assert hits[Place.NETWORK] > 0

    with_pools(work)


def test_what_came_once_is_here_afterwards() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1)
        assert await pools.got(1)
        for node in pools.fabric.nodes.values():
            node.reachable = False
        assert await pools.got(1)
        assert await pools.got(1, at="user")
        assert pools["other"].statistics().hits == {Place.NETWORK: 1, Place.LOCAL_MEMORY: 1}

    with_pools(work, local_blocks=4)


@pytest.mark.parametrize("local_blocks", [0, 4])
def test_only_a_member_with_memory_copies_a_block_before_it_is_signed(
    monkeypatch, local_blocks
) -> None:
    published: list[Contents] = []
    publish = FakeNetwork.publish

    async def record(network: FakeNetwork, name: str, bytes_: Contents) -> Sealed:
        published.append(bytes_)
        return await publish(network, name, bytes_)

    monkeypatch.setattr(FakeNetwork, "publish", record)

    async def work(pools: Pools) -> None:
        array = contents(1)
        await pools["user"].put(key(1), array)
        assert any(np.shares_memory(each, array) for each in published) is (local_blocks == 0)

    with_pools(work, local_blocks=local_blocks)


def test_blocks_stay_as_they_were_put_whatever_becomes_of_the_arrays() -> None:
    async def work(pools: Pools) -> None:
        array = contents(1)
        await pools["user"].put(key(1), array)
        array[:] = 0
        assert await pools.got(1, at="user")
        assert await pools.got(1)
        found = await pools["user"].get(key(1))
        assert found is not None
        with pytest.raises(ValueError, match="read-only"):
            found[0] = 0
        into = np.zeros(SIZE + 5, np.uint8)
        filled = await pools["user"].get(key(1), into=into)
        assert filled is not None
        assert filled.base is into
        into[:] = 0
        assert await pools.got(1, at="user")

    with_pools(work, local_blocks=4)


@pytest.mark.parametrize("puts", ["at-once", "when-asked", "balanced"])
@pytest.mark.parametrize("local_blocks", [0, 4])
def test_what_is_signed_is_what_was_put_even_if_the_put_is_cancelled(
    puts: Any, local_blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed: list[bytes] = []

    async def publish(network: FakeNetwork, name: str, contents: Contents) -> Sealed:
        await asyncio.sleep(1)
        if network.node == "user":
            signed.append(contents.tobytes())
        return await published(network, name, contents)

    published = FakeNetwork.publish
    monkeypatch.setattr(FakeNetwork, "publish", publish)

    async def work(pools: Pools) -> None:
        array = contents(1)
        putting = asyncio.ensure_future(pools["user"].put(key(1), array))
        for _ in range(2):
            await asyncio.sleep(0.3)
            putting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await putting
        array[:] = 0
        await asyncio.sleep(5)
        assert signed == [contents(1).tobytes()]

    with_pools(work, local_blocks=local_blocks, settings=PoolSettings(puts=puts))


@pytest.mark.parametrize("puts", ["at-once", "when-asked", "balanced"])
@pytest.mark.parametrize("fails", [True, False])
def test_what_is_signed_is_what_was_put_together_even_if_that_ends_early(
    puts: Any, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed: list[bytes] = []

    async def publish(network: FakeNetwork, name: str, contents: Contents) -> Sealed:
        if network.node == "user":
            if fails and name == key(0).name:
                raise KVError("it cannot be published")
            await asyncio.sleep(1 + len(signed))
            signed.append(contents.tobytes())
        return await published(network, name, contents)

    published = FakeNetwork.publish
    monkeypatch.setattr(FakeNetwork, "publish", publish)

    async def work(pools: Pools) -> None:
        arrays = [contents(n) for n in range(20)]
        blocks = [(key(n), array) for n, array in enumerate(arrays)]
        putting = asyncio.ensure_future(pools["user"].put_many(blocks))
        await asyncio.sleep(0.3)
        if not fails:
            putting.cancel()
        with pytest.raises(KVError if fails else asyncio.CancelledError):
            await putting
        for each in arrays:
            each[:] = 0
        await asyncio.sleep(1000)
        assert set(signed) <= {contents(n).tobytes() for n in range(20)}

    with_pools(work, settings=PoolSettings(puts=puts))


@pytest.mark.parametrize("is_put", [True, False])
def test_who_gives_up_leaves_the_place_to_others(*, is_put: bool) -> None:
    async def work(pools: Pools) -> None:
        pool = pools["other"]
        await pools.put(*range(4))
        for node in pools.fabric.nodes.values():
            node.alive = False
        given_up: list[asyncio.Task[object]] = [
            asyncio.create_task(pool.put(key(n), contents(n)) if is_put else pool.get(key(n)))
            for n in range(16)
        ]
        for one in given_up:  # the first ones have the places, and leave them to the next
            await asyncio.sleep(0.1)
            one.cancel()
        await asyncio.gather(*given_up, return_exceptions=True)
        for node in pools.fabric.nodes.values():
            node.alive = True
        assert await pools.put(9, at="other") == [1]
        assert await pools.got(1)

    with_pools(work, settings=PoolSettings(window=1))


def test_equal_gets_at_once_are_one_fetch() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1)
        [home] = pools.serving(1)
        before = pools.fabric.nodes[home].fetched.count(key(1).name)
        assert all(await asyncio.gather(*(pools.got(1) for _ in range(15))))
        assert pools.fabric.nodes[home].fetched.count(key(1).name) == before + 1
        assert pools["other"].statistics().shared == 14

    with_pools(work)


def test_gets_together_are_each_blocks_own_wherever_it_is() -> None:
    numbers = range(40)

    async def work(pools: Pools) -> None:
        await pools.put(*numbers)
        for node in (pools.first_home(0), pools.first_home(1)):
            node.reachable = False
        alone = asyncio.ensure_future(pools.got(5))
        keys = [key(n) for n in (*numbers, 99, 3)]
        found = await pools["other"].get_many(keys)
        for number, block in zip((*numbers, 99, 3), found, strict=True):
            assert (block is None) == (number == 99), number
            assert block is None or np.array_equal(block, contents(number))
        assert await alone
        assert pools["other"].statistics().misses.total() == 1
        assert pools["other"].statistics().hits.total() == len(keys)

    with_pools(work, members=4, settings=PoolSettings(replicas=3))


def test_blocks_that_are_here_wait_for_no_others() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(30))
        assert await pools.got(29)
        vars(pools.fabric.nodes["h0"]).update(alive=False)
        found = await pools["other"].get_many([key(n) for n in range(30)], timeout_s=2.0)
        assert [block is not None for block in found] == [False] * 29 + [True]

    with_pools(work, members=1, local_blocks=100)


def test_gets_together_that_are_cancelled_leave_their_places() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(20))
        getting = asyncio.ensure_future(pools["other"].get_many([key(n) for n in range(20)]))
        shares = asyncio.ensure_future(pools.got(0))
        await asyncio.sleep(0.0005)
        getting.cancel()
        await asyncio.wait([getting])
        assert await shares
        found = await pools["other"].get_many([key(n) for n in range(20)])
        assert all(block is not None for block in found)

    with_pools(work)


def test_who_gives_up_does_not_end_the_fetch_of_another() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1)
        hasty = asyncio.ensure_future(pools.got(1, timeout_s=0.001))
        patient = asyncio.ensure_future(pools.got(1))
        cancelled = asyncio.ensure_future(pools.got(1))
        await asyncio.sleep(0)
        cancelled.cancel()
        assert not await hasty
        assert await patient

    with_pools(work)


def test_who_waits_for_a_turn_together_with_the_hasty_waits_on_without_them() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1)
        dead = next(n for n in range(2, 20) if pools.first_home(n) is not pools.first_home(1))
        pools.first_home(dead).alive = False
        slow = asyncio.ensure_future(pools.got(dead, timeout_s=3.0))
        await asyncio.sleep(0.1)
        hasty = asyncio.ensure_future(pools.got(1, timeout_s=1.0))
        patient = asyncio.ensure_future(pools.got(1, timeout_s=10.0))
        ends = await asyncio.gather(slow, hasty, patient)
        assert list(ends) == [False, False, True]

    with_pools(work, settings=PoolSettings(window=1))


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize(
    ("failure", "cause"),
    [
        ({"reachable": False}, Cause.UNREACHABLE),
        ({"alive": False}, Cause.LATE),
        ({"forges": True}, Cause.UNTRUSTED),
    ],
)
def test_a_home_that_fails_is_a_miss_unless_another_has_the_block(
    failure: dict[str, bool], cause: Cause, replicas: int
) -> None:
    async def work(pools: Pools) -> None:
        assert await pools.put(1) == [replicas]
        vars(pools.first_home(1)).update(failure)
        assert await pools.got(1) == (replicas == 2)
        assert pools["other"].statistics().misses == ({cause: 1} if replicas == 1 else {})

    with_pools(work, settings=PoolSettings(replicas=replicas))


def test_a_home_that_was_silent_once_is_asked_again_at_once() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(20))
        for node in pools.fabric.nodes.values():
            node.alive = False
        assert not any(await asyncio.gather(*(pools.got(n) for n in range(20))))
        for node in pools.fabric.nodes.values():
            node.alive = True
        assert all([await pools.got(n) for n in range(20)])

    with_pools(work)


def test_a_home_that_fails_again_and_again_is_asked_less_and_less_often() -> None:
    async def work(pools: Pools) -> None:
        now_s = asyncio.get_running_loop().time
        await pools.put(1)
        pools.first_home(1).alive = False
        ended_s, pauses_s = now_s(), list[float]()
        while len(pauses_s) < 7:
            began_s = now_s()
            await pools.got(1, timeout_s=1)
            if now_s() > began_s + 0.5:  # it was asked, and another was not
                pauses_s.append(round(began_s - ended_s))
                ended_s = now_s()
            else:
                await asyncio.sleep(0.1)
        assert pauses_s == [0, 0, 2, 4, 8, 8, 8]

    with_pools(work, settings=PoolSettings(leave_out_s=8))


def test_a_home_that_stays_silent_is_left_out_for_a_while() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1)
        dead = pools.first_home(1)
        dead.alive = False
        for _ in range(2):
            assert not await pools.got(1)
        # Another is its home now.
        assert await pools.put(1, at="other") == [1]
        assert await pools.got(1)
        dead.alive = True
        await asyncio.sleep(10)
        assert await pools.got(1)
        assert dead.fetched.count(key(1).name) == 1

    with_pools(work, settings=PoolSettings(leave_out_s=9))


def test_a_home_with_a_fault_of_its_own_says_that_it_has_not_done_it() -> None:
    async def work(pools: Pools) -> None:
        home = pools.first_home(1)
        home.breaks = True
        assert await pools.put(1) == [0]
        # Not late: who asked was told, and goes on asking this home.
        assert pools["user"].statistics().lost_copies == {Cause.REFUSED: 1}
        home.breaks = False
        assert await pools.put(1) == [1]
        assert pools.first_home(1) is home

    with_pools(work)


def test_a_home_goes_on_answering_when_it_has_answered_very_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    most = 4
    monkeypatch.setattr(home, "_MOST_REQUESTS", most)
    monkeypatch.setattr(home, "_MOST_ANSWERS", most)

    async def work(pools: Pools) -> None:
        for number in range(10 * most):
            assert await pools.put(number) == [1]
        for node in pools.fabric.nodes.values():
            assert sum("/request/" in name for name in node.serves) <= most

    with_pools(work)


def test_a_get_with_little_time_says_nothing_of_a_home() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1)
        assert not await pools.got(1, timeout_s=0.001)
        assert await pools.got(1)

    with_pools(work)


def test_without_homes_a_node_has_its_own_blocks_alone() -> None:
    async def work(pools: Pools) -> None:
        assert await pools.put(1) == [0]
        assert await pools.got(1, at="user")
        assert not await pools.got(1)
        assert pools["other"].statistics().misses == {Cause.NO_HOME: 1}

    with_pools(work, members=0, local_blocks=4)


def test_who_joins_or_leaves_moves_its_own_blocks_alone() -> None:
    async def work(pools: Pools) -> None:
        size = pools.fabric.members.pop("h2")
        await pools.put(*range(30))
        before = [pools.serving(n) for n in range(30)]
        pools.fabric.members["h2"] = size
        found = [await pools.got(n) for n in range(30)]
        assert {False, True} == set(found)
        await pools.put(*(n for n in range(30) if not found[n]))
        assert all([await pools.got(n) for n in range(30)])
        del pools.fabric.members["h2"]
        assert all([await pools.got(n, at="user") for n in range(30)])
        assert all(set(before[n]) <= set(pools.serving(n)) for n in range(30))

    with_pools(work)


def test_a_full_home_keeps_what_was_asked_for_last() -> None:
    async def work(pools: Pools) -> None:
        for n in range(6):
            await pools.put(n)
            assert await pools.got(0)
        assert pools.serving(0) == ["h0"]
        assert sum(bool(pools.serving(n)) for n in range(6)) == 3
        tier = pools["h0"].statistics().tiers["home memory"]
        assert (tier.blocks, tier.used_bytes, tier.evicted) == (3, 3 * ROOM, 3)

    with_pools(work, members=1, blocks=3)


def test_a_block_larger_than_a_home_is_refused() -> None:
    async def work(pools: Pools) -> None:
        assert await pools["user"].put(key(1), np.zeros(3 * ROOM, np.uint8)) == 0
        assert pools["user"].statistics().lost_copies == {Cause.REFUSED: 1}
        assert pools["h0"].statistics().refused == {"no room": 1}

    with_pools(work, members=1, blocks=3)


def test_a_prefix_ends_at_the_first_block_that_is_missing() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(20), *range(21, 30))
        keys = [key(n) for n in range(30)]
        assert await pools["other"].count_prefix(keys) == 20
        assert await pools["other"].count_prefix(keys[:7]) == 7
        assert await pools["other"].count_prefix(keys[20:]) == 0
        assert await pools["other"].exists_many(keys[19:22]) == [True, False, True]

    with_pools(work)


def test_blocks_are_prefetched_to_this_node_or_to_others() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1, 2)
        assert await pools["other"].prefetch([key(1), key(3)]) == [True, False]
        members = list(pools.fabric.members)
        assert await pools["user"].prefetch([key(1), key(2)], nodes=members) == [True, True]
        assert pools.serving(1) == pools.serving(2) == members
        pools.fabric.nodes["other"].reachable = False
        assert await pools.got(1)
        assert not await pools.got(2)

    with_pools(work, local_blocks=4)


def test_a_single_string_is_not_taken_for_members_to_prefetch_to() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1)
        with pytest.raises(KVError, match=r"give nodes=\['other'\]"):
            await pools["user"].prefetch([key(1)], nodes="other")

    with_pools(work)


def test_a_hot_block_is_replicated_from_a_home_by_one_that_has_it_not() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1)
        assert await pools["other"].prefetch([key(1), key(2)], nodes=["h0", "h1", "h2"]) == [
            True,
            False,
        ]
        assert pools.serving(1) == ["h0", "h1", "h2"]

    with_pools(work)


def test_whatever_has_bytes_is_put_as_these_and_loaded_into_any_memory() -> None:
    whole = contents(1).tobytes()
    forms: Sequence[Any] = (
        whole,
        bytearray(whole),
        memoryview(whole),
        memoryview(whole * 2)[::1][:SIZE],
        contents(1).reshape(2, -1),
        contents(1).view(np.float32),
        array.array("d", whole),
        contents(1).repeat(2)[::2],
        np.frombuffer(whole, "S1"),
    )

    async def work(pools: Pools) -> None:
        for number, form in enumerate(forms):
            assert await pools["user"].put(key(number), form) == 1
        memories: Sequence[Any] = (bytearray(SIZE), array.array("d", bytes(SIZE)))
        for number, memory in enumerate(memories):
            loaded = await pools["other"].get(key(number), into=memory)
            assert loaded is not None
            assert bytes(memory) == bytes(loaded) == whole
        for number in range(len(forms)):
            found = await pools["other"].get(key(number))
            assert found is not None
            assert found.tobytes() == whole

    with_pools(work)


def test_wrong_use_is_told() -> None:
    async def work(pools: Pools) -> None:
        pool = pools["user"]
        stranger = BlockKey(BlockFamily("beef", "00ff", "raw", 0, 1), bytes(32))
        await pools.put(1)
        with pytest.raises(KVError, match="another tenant"):
            await pool.get(stranger)
        for wrong in ("text", 7, [1, 2], None, np.array([object()])):
            with pytest.raises(KVError, match="object with a buffer"):
                await pool.put(key(1), wrong)  # type: ignore[arg-type]
        for empty in (b"", np.zeros((0, 2))):
            with pytest.raises(KVError, match="at least one byte"):
                await pool.put(key(1), empty)
        for memory in (bytes(SIZE), np.zeros(2 * SIZE, np.uint8)[::2], [0] * SIZE):
            with pytest.raises(KVError, match="can be written to"):
                await pool.get(key(1), into=memory)  # type: ignore[arg-type]
        with pytest.raises(KVError, match="does not fit into 10"):
            await pool.get(key(1), into=np.zeros(10, np.uint8))
        with pytest.raises(KVError, match="timeout"):
            await pool.get(key(1), timeout_s=-1)
        with pytest.raises(KVError, match="lease"):
            await pool.pin([key(1)], 0)
        await pool.close()
        with pytest.raises(KVError, match="not open"):
            await pool.get(key(1))

    with_pools(work, local_blocks=4)


def test_settings_out_of_range_are_refused() -> None:
    for wrong in ({"replicas": 0}, {"window": 0}, {"timeout_s": 0.0}, {"answer_s": float("inf")}):
        with pytest.raises(KVError, match=next(iter(wrong))):
            PoolSettings(**wrong)


def test_members_that_bring_each_other_blocks_do_not_wait_for_each_other() -> None:
    async def work(pools: Pools) -> None:
        ends = await asyncio.gather(
            pools.put(*range(100), at="h0"), pools.put(*range(100, 200), at="h1")
        )
        assert list(ends) == [[1] * 100, [1] * 100]

    with_pools(work, members=2, settings=PoolSettings(window=2))


def test_lookups_count_hits_and_misses_in_blocks() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(20))
        other = pools["other"]
        keys = [key(n) for n in range(50)]
        assert await other.count_prefix(keys) == 20
        counted = other.statistics()
        assert (counted.looked_up, counted.found) == (50, 20)
        assert counted.misses == {Cause.ABSENT: 1, Cause.AFTER_GAP: 29}
        assert all(block is not None for block in await other.get_many(keys[:20]))
        assert other.statistics().hit_rate == 20 / 50  # as engines look up, and load what is there

    with_pools(work)


def test_a_block_that_is_looked_up_alone_counts() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(1)
        assert await pools["other"].exists_many([key(n) for n in range(4)]) == [
            False,
            True,
            False,
            False,
        ]
        counted = pools["other"].statistics()
        assert (counted.looked_up, counted.found) == (4, 1)
        assert counted.misses == {Cause.ABSENT: 3}
        assert counted.hit_rate == 1 / 4

    with_pools(work)


def test_a_lookup_says_why_a_block_is_not_there() -> None:
    async def work(pools: Pools) -> None:
        for node in pools.fabric.nodes.values():
            node.reachable = False
        assert not await pools["other"].exists(key(1))
        assert pools["other"].statistics().misses == {Cause.UNREACHABLE: 1}

    with_pools(work)


def test_a_lookup_of_nothing_counts_nothing() -> None:
    async def work(pools: Pools) -> None:
        assert await pools["other"].count_prefix([]) == 0
        assert pools["other"].statistics().looked_up == 0

    with_pools(work)
