"""Blocks in an object storage behind memory or a disk: fsspec's memory, and a server of S3."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from innet.errors import KVError
from innet.kv.pool import BlockPool, DiskTier, LayeredTier, MemoryTier, Place, TieredStore
from innet.kv.pool.block_database import record_bytes
from innet.kv.pool.network import Sealed
from innet.kv.pool_options import MemberOptions
from tests.kv.fake_network import FakeFabric, run
from tests.kv.pools import ROOM, ROOT_BYTES, InlineDisk, contents, key
from tests.kv.test_disk_tier import disk_full_beyond
from tests.kv.test_poison import DamagingDisk, flipped

fsspec: Any = pytest.importorskip("fsspec", reason="needs fsspec: pip install fsspec s3fs")

ROOT = b"root manifest"
SIZE = 1000
_folders = count()


def name(number: int) -> str:
    return f"/kv/a/00ff/raw/0-0/{number:064x}"


def block(number: int) -> Sealed:
    return Sealed(np.random.default_rng(number).integers(0, 256, SIZE, np.uint8), ROOT)


def capacity(blocks: int) -> int:
    return blocks * record_bytes(name(0), len(ROOT), SIZE)


@pytest.fixture(params=["memory", "s3"])
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "memory":
        yield f"memory://blocks/{next(_folders)}"
        return
    pytest.importorskip("s3fs", reason="needs s3fs and moto: pip install s3fs 'moto[server]'")
    server = pytest.importorskip("moto.server", reason="needs moto: pip install 'moto[server]'")
    bucket = f"bucket{next(_folders)}"
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    options = {"key": "test", "secret": "test", "endpoint_url": f"http://{host}:{port}"}
    monkeypatch.setitem(fsspec.config.conf, "s3", options)
    fsspec.filesystem("s3", skip_instance_cache=True).mkdir(bucket)
    yield f"s3://{bucket}/blocks"
    running.stop()


def test_blocks_are_found_again_by_another_process(url: str) -> None:
    async def first() -> None:
        tier = await DiskTier.open(url, capacity(3), "lru")
        for number in range(5):
            tier.put(name(number), block(number), depth=number)
        assert [name(number) in tier for number in range(5)] == [False, False, True, True, True]
        await tier.close()

    async def second() -> None:
        tier = await DiskTier.open(url, capacity(3), "lru")
        assert [name(number) in tier for number in range(5)] == [False, False, True, True, True]
        for number in range(2, 5):
            found = await tier.get(name(number))
            assert found is not None
            assert found.root == ROOT
            assert np.array_equal(found.contents, block(number).contents)
            assert tier.depth(name(number)) == number
        tier.remove(name(3))
        await tier.close()
        files, folder = fsspec.core.url_to_fs(url)
        assert len(files.find(folder)) == 2

    asyncio.run(first())
    asyncio.run(second())


def test_objects_of_others_hide_no_blocks(url: str) -> None:
    async def work() -> None:
        tier = await DiskTier.open(url, capacity(3), "lru")
        tier.put(name(0), block(0), depth=0)
        await tier.close()
        files, folder = fsspec.core.url_to_fs(url)
        [path] = files.find(folder)
        row = path.rsplit("/", 1)[-1].partition(".")[0]
        files.pipe({f"{folder}/{row}.5.5.foo": b"of others"})
        tier = await DiskTier.open(url, capacity(3), "lru")
        assert tier.names() == [name(0)]
        assert await tier.get(name(0)) is not None
        tier.remove(name(0))
        await tier.close()
        files.invalidate_cache()
        assert [each.endswith(".foo") for each in files.find(folder)] == [True]

    asyncio.run(work())


def test_a_lost_or_damaged_object_is_a_miss(url: str) -> None:
    async def work() -> None:
        tier = await DiskTier.open(url, capacity(3), "lru")
        gone: list[str] = []
        tier.on_gone = gone.append
        for number in range(2):
            tier.put(name(number), block(number), depth=0)
        await tier.flush()
        files, folder = fsspec.core.url_to_fs(url)
        first, second = sorted(files.find(folder))
        files.rm(first)
        files.pipe({second: b"\xff\xff"})
        assert [await tier.get(name(number)) for number in range(2)] == [None, None]
        assert gone == [name(0), name(1)]
        tier.put(name(2), block(2), depth=0)
        await tier.flush()
        assert len(files.find(folder)) == 1
        await tier.close()

    asyncio.run(work())


@asynccontextmanager
async def home_of_three_tiers(folder: Path, url: str, disk: InlineDisk) -> AsyncIterator[BlockPool]:
    """A home without room in memory: two blocks fit on its disk, four in its object storage."""
    size = record_bytes(key(0).name, ROOT_BYTES, SIZE)
    layered = LayeredTier(
        await DiskTier.open(folder, 2 * size, "lru", disk),
        await DiskTier.open(url, 4 * size, "lru", InlineDisk()),
    )
    offered = TieredStore(MemoryTier(0), layered)
    network = FakeFabric({"h0": 100 * ROOM}).network("h0")
    async with BlockPool(network, local=TieredStore(MemoryTier(0)), offered=offered) as pool:
        yield pool


async def is_right(pool: BlockPool, number: int) -> bool:
    """Whether the pool has a block, with the bytes that were put."""
    found = await pool.get(key(number))
    return found is not None and np.array_equal(found, contents(number))


def test_an_object_storage_behind_a_disk_has_what_the_disk_has_not(
    tmp_path: Path, url: str
) -> None:
    async def work() -> None:
        async with home_of_three_tiers(tmp_path, url, InlineDisk()) as home:
            for number in range(5):
                await home.put(key(number), contents(number))
        async with home_of_three_tiers(tmp_path, url, InlineDisk()) as home:
            tiers = home.statistics().tiers
            assert (tiers["home disk"].blocks, tiers["home objects"].blocks) == (2, 4)
            assert all([await is_right(home, number) for number in (4, 3, 2, 1)])
            assert not await is_right(home, 0)
            assert await is_right(home, 1), "a requested block returns to the disk"
            hits = home.statistics().hits
            assert hits == {Place.HOME_DISK: 3, Place.HOME_OBJECTS: 2}

    run(work())


def test_a_damaged_block_is_dropped_from_its_tier_and_counted_there(
    tmp_path: Path, url: str
) -> None:
    async def work() -> None:
        disk = DamagingDisk()
        async with home_of_three_tiers(tmp_path, url, disk) as home:
            for number in range(4):
                await home.put(key(number), contents(number))
        async with home_of_three_tiers(tmp_path, url, disk) as home:
            disk.damage = flipped
            assert await is_right(home, 3), "the object storage has it, too"
            files, folder = fsspec.core.url_to_fs(url)
            [path] = [each for each in files.find(folder) if quote(key(0).name, "") in each]
            files.pipe({path: files.cat_file(path)[:-1] + b"?"})
            assert await home.get(key(0)) is None
            assert not await home.exists(key(0))
            tiers = home.statistics().tiers
            assert (tiers["home disk"].damaged, tiers["home objects"].damaged) == (1, 1)
        files.invalidate_cache()
        assert path not in files.find(folder)

    run(work())


def test_a_storage_that_fsspec_does_not_know_is_refused() -> None:
    with pytest.raises(KVError, match="none-such://bucket"):
        asyncio.run(DiskTier.open("none-such://bucket", 1 << 20))
    with pytest.raises(KVError, match="fsspec knows no storage 'none-such'"):
        MemberOptions.of({"folder": "none-such://bucket", "disk": "1GiB"})


def test_no_other_user_reads_objects_of_this_machine(tmp_path: Path) -> None:
    async def work() -> None:
        tier = await DiskTier.open(f"file://{tmp_path}/shared/blocks", capacity(3), "lru")
        tier.put(name(0), block(0), depth=0)
        await tier.close()

    before = os.umask(0o022)
    try:
        asyncio.run(work())
    finally:
        os.umask(before)
    folder = tmp_path / "shared" / "blocks"
    [written] = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, written.stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_full_disk_below_a_url_keeps_no_part_of_a_block(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest of the block would take the room of others, and count as damaged after a restart."""

    async def work() -> None:
        tier = await DiskTier.open(f"file://{tmp_path}/blocks", capacity(3), "lru")
        tier.put(name(0), block(0), depth=0)
        await tier.flush()
        with disk_full_beyond(SIZE // 2):
            for number in (1, 2):
                tier.put(name(number), block(number), depth=0)
                await tier.flush()
        assert (tier.statistics().failed, tier.names()) == (2, [name(0)])
        assert caplog.text.count("cannot be written to") == 1, "it is logged once"
        assert await tier.get(name(0)) is not None
        await tier.close()

    asyncio.run(work())
    assert len(list((tmp_path / "blocks").iterdir())) == 1


def test_a_damaged_block_leaves_its_tier_alone_and_no_other(tmp_path: Path, url: str) -> None:
    """Between the read and its verification the disk may have lost the block, or got another."""

    async def work() -> None:
        layered = LayeredTier(
            await DiskTier.open(tmp_path, capacity(3), "lru"),
            await DiskTier.open(url, capacity(3), "lru"),
        )
        for number in range(2):
            layered.put(name(number), block(number), depth=0)
        damaged = await layered.get(name(0))
        assert damaged is not None
        layered.disk.remove(name(0))
        layered.remove_damaged(name(0), damaged)
        assert name(0) in layered.objects, "the good copy stays"
        damaged = await layered.get(name(0))
        assert damaged is not None
        layered.disk.put(name(0), block(0), depth=0)
        layered.remove_damaged(name(0), damaged)
        assert (name(0) in layered.disk, name(0) in layered.objects) == (True, False)
        await layered.close()

    asyncio.run(work())
