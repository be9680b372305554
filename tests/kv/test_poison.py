"""Blocks that are not what was put: nobody ever gets one, they are missed and made again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from innet.kv.pool import BlockPool, Cause, DiskTier, MemoryTier, PoolSettings, TieredStore
from innet.kv.pool.network import Sealed
from tests.kv.fake_network import FakeFabric, Result, run
from tests.kv.pools import ROOM, InlineDisk, contents, key

LINGER_S = PoolSettings().answer_s


def flipped(block: Sealed) -> Sealed:
    damaged = block.contents.copy()
    damaged[len(damaged) // 2] ^= 1
    return Sealed(damaged, block.root)


def truncated(block: Sealed) -> Sealed:
    return Sealed(block.contents[:-1], block.root)


def emptied(block: Sealed) -> Sealed:
    return Sealed(block.contents[:0], block.root)


def anothers_bytes(block: Sealed) -> Sealed:
    return Sealed(contents(7), block.root)


def unsigned(block: Sealed) -> Sealed:
    return Sealed(block.contents, b"")


DAMAGES = [flipped, truncated, emptied, anothers_bytes, unsigned]
Damage = Callable[[Sealed], Sealed]


class DamagingDisk(InlineDisk):
    """A disk on which something happens to blocks, once ``damage`` is set."""

    damage: Damage | None = None

    async def run(self, work: Callable[[], Result]) -> Result:
        result = await super().run(work)
        if self.damage is not None and isinstance(result, Sealed):
            return cast(Result, self.damage(result))
        return result


class HomeWithDisk:
    """A home that keeps all on its disk, for others and, with ``for_itself``, for its own use."""

    def __init__(self, folder: Path, *, for_itself: bool = False) -> None:
        self.disk = DamagingDisk()
        self.fabric = FakeFabric({"h0": 100 * ROOM}, others=("user", "other"))
        self._folder = folder
        self._for_itself = for_itself

    async def __aenter__(self) -> HomeWithDisk:
        tier = await DiskTier.open(self._folder, 1 << 20, work=self.disk)
        with_disk, without = TieredStore(MemoryTier(0), tier), TieredStore(MemoryTier(0))
        local, offered = (with_disk, without) if self._for_itself else (without, with_disk)
        self.pool = BlockPool(self.fabric.network("h0"), local=local, offered=offered)
        self.user, self.other = (
            BlockPool(self.fabric.network(node), local=TieredStore(MemoryTier(0)))
            for node in ("user", "other")
        )
        self.pools = (self.pool, self.user, self.other)
        for pool in self.pools:
            await pool.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for pool in self.pools:
            await pool.close()

    def damaged_blocks(self) -> int:
        """How many the home has found damaged."""
        [tier] = (s for name, s in self.pool.statistics().tiers.items() if "disk" in name)
        return tier.damaged


async def is_right(pool: BlockPool) -> bool:
    """Whether a pool has block 1; whatever it hands out is that block."""
    found = await pool.get(key(1))
    assert found is None or np.array_equal(found, contents(1))
    return found is not None


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_block_that_was_damaged_on_a_homes_disk_is_missed_and_made_again(
    tmp_path: Path, damage: Damage
) -> None:
    async def work() -> None:
        async with HomeWithDisk(tmp_path) as home:
            await home.user.put(key(1), contents(1))
            assert await is_right(home.other)
            home.disk.damage = damage
            # What the home still gives to others from memory, it does not take from disk again.
            assert await is_right(home.other)
            await asyncio.sleep(LINGER_S + 1)
            assert not await is_right(home.other)
            assert home.damaged_blocks() == 1
            assert home.other.statistics().misses == {Cause.ABSENT: 1}
            home.disk.damage = None
            assert await home.user.put(key(1), contents(1)) == 1
            assert await is_right(home.other)

    run(work())


def test_a_lease_ends_with_the_damaged_block(tmp_path: Path) -> None:
    async def work() -> None:
        async with HomeWithDisk(tmp_path) as home:
            await home.user.put(key(1), contents(1))
            assert await home.user.pin([key(1)], 60) == [True]
            home.disk.damage = flipped
            assert not await is_right(home.other)
            home.disk.damage = None
            assert await home.user.put(key(1), contents(1)) == 1
            assert await home.other.evict([key(1)]) == [True]

    run(work())


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("for_itself", [False, True])
def test_a_home_that_uses_its_own_blocks_gets_none_that_is_damaged(
    tmp_path: Path, damage: Damage, *, for_itself: bool
) -> None:
    async def work() -> None:
        async with HomeWithDisk(tmp_path, for_itself=for_itself) as home:
            await home.pool.put(key(1), contents(1))
            assert await is_right(home.pool)
            home.disk.damage = damage
            # Also while the same block is being given to others from memory: that is another copy.
            await is_right(home.pool)
            await asyncio.sleep(LINGER_S + 1)
            assert not await is_right(home.pool)
            assert home.damaged_blocks() == 1

    run(work())
