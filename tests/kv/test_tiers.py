"""Disks behind the memory of a pool's nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from innet.kv.pool import BlockPool, DiskTier, MemoryTier, Place, TieredStore
from innet.kv.pool.disk_tier import FILE_NAME, DiskWork
from tests.kv.fake_network import FakeFabric, Result, run
from tests.kv.pools import ROOM, Disks, InlineDisk, Pools, contents, key, with_pools


class SlowDisk(InlineDisk):
    """A disk that takes a second for each call."""

    async def run(self, work: Callable[[], Result]) -> Result:
        await asyncio.sleep(1)
        return await super().run(work)


def test_blocks_beyond_a_homes_memory_are_served_from_its_disk(tmp_path: Path) -> None:
    async def work(pools: Pools) -> None:
        assert await pools.put(*range(10)) == [1] * 10
        assert sum(bool(pools.serving(n)) for n in range(10)) == 2
        assert all([await pools.got(n) for n in range(10)])
        assert not await pools.got(10)
        tiers = pools["h0"].statistics().tiers
        assert (tiers["home memory"].blocks, tiers["home disk"].blocks) == (2, 10)

    with_pools(work, members=1, blocks=2, disks=Disks(tmp_path))


def test_blocks_beyond_the_local_memory_are_kept_on_disk(tmp_path: Path) -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(10))
        for node in pools.fabric.nodes.values():
            node.reachable = False
        assert all([await pools.got(n, at="user") for n in range(10)])
        # The block requested last is in memory again.
        assert await pools.got(9, at="user")
        hits = pools["user"].statistics().hits
        assert (hits[Place.LOCAL_DISK], hits[Place.LOCAL_MEMORY]) == (10, 1)
        assert not any(pools.serving(n) == ["user"] for n in range(10))

    with_pools(work, local_blocks=2, disks=Disks(tmp_path))


@pytest.mark.parametrize(("is_saved", "there"), [(False, 8), (True, 10)])
def test_a_restarted_node_has_the_blocks_on_its_disk(
    tmp_path: Path, is_saved: bool, there: int
) -> None:
    async def before(pools: Pools) -> None:
        await pools.put(*range(10))

    async def after(pools: Pools) -> None:
        found = [await pools.got(n) for n in range(10)]
        # Two were in memory alone, unless that was saved.
        assert sum(found) == there

    for work in (before, after):
        with_pools(work, members=1, blocks=2, disks=Disks(tmp_path, is_saved=is_saved))


def test_blocks_of_others_in_a_folder_are_not_served(tmp_path: Path) -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(10))

    async def after(pools: Pools) -> None:
        assert not pools.fabric.nodes["h0"].expected

    with_pools(work, members=1, blocks=2, disks=Disks(tmp_path))
    with_pools(after, members=1, blocks=2, disks=Disks(tmp_path), tenant="beef")


def test_a_block_damaged_on_disk_is_a_miss_and_is_dropped(tmp_path: Path) -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(10))

    async def after(pools: Pools) -> None:
        assert not await pools.got(3)
        assert await pools.got(4)
        assert key(3).name not in pools.fabric.nodes["h0"].expected
        assert pools["h0"].statistics().tiers["home disk"].damaged == 1
        assert await pools.put(3) == [1]
        assert await pools.got(3)

    with_pools(work, members=1, blocks=2, disks=Disks(tmp_path))
    for path in tmp_path.glob(f"*/{FILE_NAME}"):
        content = bytearray(path.read_bytes())
        place = content.find(contents(3).tobytes()[:64])
        if place >= 0:
            content[place] ^= 1
            path.write_bytes(content)
    with_pools(after, members=1, blocks=2, disks=Disks(tmp_path))


def test_a_full_disk_drops_blocks_and_requests_for_them_are_refused(tmp_path: Path) -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(20))
        found = [n for n in range(20) if await pools.got(n)]
        assert len(found) >= 5
        assert pools["h0"].statistics().tiers["home disk"].evicted > 0
        assert set(pools.fabric.nodes["h0"].expected) <= {key(n).name for n in range(20)}

    with_pools(work, members=1, blocks=2, disks=Disks(tmp_path, blocks=5))


def test_a_pinned_block_stays_on_disk(tmp_path: Path) -> None:
    async def work(pools: Pools) -> None:
        await pools.put(*range(5))
        assert pools.serving(0) == []
        assert await pools["user"].pin([key(0)], 60) == [True]
        await pools.put(*range(5, 30))
        assert await pools.got(0)
        assert not await pools.got(1)
        assert await pools["user"].evict([key(0)]) == [True]
        assert not await pools.got(0)

    with_pools(work, members=1, blocks=2, disks=Disks(tmp_path, blocks=5))


def test_a_home_with_only_a_disk_serves_its_blocks(tmp_path: Path) -> None:
    async def work(pools: Pools) -> None:
        pools.fabric.members["h0"] = 1
        assert await pools.put(*range(30)) == [1] * 30
        assert all([await pools.got(n) for n in range(30)])
        assert all([await pools.got(n, at="h0") for n in (29, 29)])
        # Each is served for a while after it was loaded, not for ever, and not when it is gone.
        assert pools.serving(29) == ["h0"]
        await pools["h0"].evict([key(29)])
        assert pools.serving(29) == []
        await asyncio.sleep(6)
        assert not any(pools.serving(n) for n in range(30))

    with_pools(work, members=1, blocks=0, disks=Disks(tmp_path))


@pytest.mark.parametrize("cancelled_after_s", [0, 0.5, 1.5, 2.5])
def test_a_close_that_is_cancelled_closes_all_disks(
    tmp_path: Path, cancelled_after_s: float
) -> None:
    async def store(name: str, disk: DiskWork) -> TieredStore:
        return TieredStore(
            MemoryTier(ROOM), await DiskTier.open(tmp_path / name, 1 << 20, work=disk)
        )

    async def work() -> None:
        fabric = FakeFabric({"h0": ROOM})
        pool = BlockPool(
            fabric.network("h0"),
            local=await store("local", SlowDisk()),
            offered=await store("offered", SlowDisk()),
        )
        await pool.start()
        for number in range(3):
            await pool.put(key(number), contents(number))
        closing = asyncio.ensure_future(pool.close())
        await asyncio.sleep(cancelled_after_s)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        for name in ("local", "offered"):
            again = await store(name, InlineDisk())  # refused while another has it open
            await again.close()

    run(work())
