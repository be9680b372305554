"""What becomes of blocks when members die, come back empty, join and leave."""

from __future__ import annotations

import asyncio

import pytest

from innet.errors import KVError
from innet.kv.pool import BlockPool, MemoryTier, PoolSettings, TieredStore
from innet.kv.pool.peers import Placement
from innet.kv.pool.replication import LOOK_S
from innet.kv.pool.waiting import now_s
from tests.kv.pools import SIZE, Disks, Pools, key, with_pools

BLOCKS = range(40)
TWICE = PoolSettings(replicas=2)
SETTLED_S = TWICE.leave_out_s + 3 * LOOK_S


def homes(pools: Pools, number: int, replicas: int = 2) -> set[str]:
    """The homes of a block among the members of now."""
    return set(Placement(pools.fabric.members, replicas=replicas).homes(key(number).block_hash))


def lacking(pools: Pools, replicas: int = 2) -> dict[int, set[str]]:
    """For each block, homes that do not serve it."""
    found = {n: homes(pools, n, replicas) - set(pools.serving(n)) for n in BLOCKS}
    return {number: names for number, names in found.items() if names}


def die(pools: Pools, member: str) -> int:
    """A member dies; the bytes that it offered."""
    pools.fabric.nodes[member].alive = False
    return pools.fabric.members.pop(member)


def copies(pools: Pools) -> dict[str, int]:
    return {name: pool.statistics().replicated for name, pool in pools.pools.items()}


@pytest.mark.parametrize("replicas", [2, 3])
def test_blocks_of_a_member_that_died_are_copied_to_their_next_homes(replicas: int) -> None:
    async def work(pools: Pools) -> None:
        assert await pools.put(*BLOCKS) == [replicas] * len(BLOCKS)
        lost = sum("h1" in homes(pools, number, replicas) for number in BLOCKS)
        die(pools, "h1")
        assert lacking(pools, replicas)
        await asyncio.sleep(SETTLED_S)
        assert lacking(pools, replicas) == {}
        assert sum(copies(pools).values()) == lost, "each block is copied once, by one survivor"
        die(pools, "h0")
        assert all([await pools.got(number) for number in BLOCKS])

    with_pools(work, members=4, settings=PoolSettings(replicas=replicas))


def test_a_member_that_comes_back_empty_gets_its_blocks_again() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*BLOCKS)
        offered = die(pools, "h1")
        await asyncio.sleep(2 * LOOK_S)
        await pools["h1"].close()
        pools.fabric.nodes["h1"].alive = True
        pools.fabric.members["h1"] = offered
        memory = TieredStore(MemoryTier(offered, "lru"))
        network = pools.fabric.network("h1")
        async with BlockPool(
            network, local=TieredStore(MemoryTier(0)), offered=memory, settings=TWICE
        ):
            assert lacking(pools)
            await asyncio.sleep(SETTLED_S)
            assert lacking(pools) == {}

    with_pools(work, members=3, settings=TWICE)


def test_a_member_that_joins_gets_the_blocks_that_it_is_home_to() -> None:
    async def work(pools: Pools) -> None:
        offered = pools.fabric.members.pop("h3")
        await asyncio.sleep(SETTLED_S)
        await pools.put(*BLOCKS)
        pools.fabric.members["h3"] = offered
        await asyncio.sleep(SETTLED_S)
        assert lacking(pools) == {}

    with_pools(work, members=4, settings=TWICE)


def test_members_that_change_while_blocks_are_copied_are_looked_at_again() -> None:
    async def work(pools: Pools) -> None:
        offered = pools.fabric.members.pop("h5")
        await asyncio.sleep(SETTLED_S)
        await pools.put(*BLOCKS)
        die(pools, "h1")
        await asyncio.sleep(SETTLED_S)
        assert lacking(pools), "at this rate, not all can have been copied"
        pools.fabric.members["h5"] = offered
        await asyncio.sleep(5 * len(BLOCKS) + 3 * SETTLED_S)
        assert lacking(pools) == {}

    slowly = PoolSettings(replicas=2, window=1, copy_bytes_per_s=SIZE // 4)
    with_pools(work, members=6, settings=slowly)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_member_that_leaves_hands_its_blocks_over(replicas: int) -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*BLOCKS)
        of_h1 = [number for number in BLOCKS if "h1" in pools.serving(number)]
        assert of_h1
        assert await pools["h1"].hand_over() == len(of_h1)
        await pools["h1"].close()
        die(pools, "h1")
        for number in BLOCKS:
            home = Placement(pools.fabric.members).homes(key(number).block_hash)[0]
            assert home in pools.serving(number)
        assert all([await pools.got(number) for number in BLOCKS])

    with_pools(work, members=3, settings=PoolSettings(replicas=replicas))


def test_copies_take_no_more_than_their_rate(tmp_path) -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*BLOCKS)
        began_s = now_s()
        copied = await pools["h1"].hand_over()
        batches_after_the_first = copied - PoolSettings().window
        assert now_s() - began_s >= batches_after_the_first
        assert copied > PoolSettings().window
        assert all([await pools.got(number) for number in BLOCKS])

    # Memory for a few: most blocks are on disk, whose records are whole pages.
    per_block = PoolSettings(copy_bytes_per_s=SIZE)
    with_pools(work, members=2, blocks=4, disks=Disks(tmp_path), settings=per_block)


def test_the_last_member_has_nobody_to_hand_its_blocks_to() -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*BLOCKS)
        assert await pools["h0"].hand_over() == 0
        await pools["h0"].close()
        with pytest.raises(KVError, match="not open"):
            await pools["h0"].hand_over()

    with_pools(work, members=1)
