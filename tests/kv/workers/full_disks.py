"""What a tier of blocks does on a disk that is full or broken: one scenario, by its name.

    python -m tests.kv.workers.full_disks SCENARIO FOLDER

``FOLDER`` is a file system of 4 MiB with few inodes, in a mount namespace of this process.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from innet.kv.pool import block_database
from innet.kv.pool.disk_tier import FILE_NAME, DiskTier
from tests.kv.test_disk_tier import block, is_whole, opened

BLOCKS = 20


def fill(folder: Path) -> Path:
    """A file that takes all that is left of the disk."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    assert os.statvfs(folder).f_bavail == 0
    return ballast


async def put(tier: DiskTier, numbers: range) -> None:
    """Put blocks, each written before the next one."""
    for number in numbers:
        tier.put(str(number), block(number), number)
        await tier.flush()


async def readable(tier: DiskTier) -> set[int]:
    found = {name: await tier.get(name) for name in tier.names()}
    return {int(name) for name, sealed in found.items() if sealed is not None and is_whole(sealed)}


def killed_while_writing(blocks: Path) -> None:
    """Another process writes blocks there, and is killed with its journal on the disk."""
    command = [sys.executable, "-m", "tests.kv.workers.full_disks", "write", str(blocks)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert (blocks / f"{FILE_NAME}-wal").stat().st_size > 0


async def write(blocks: Path) -> None:
    """See :func:`killed_while_writing`."""
    await put(await opened(blocks), range(BLOCKS))
    os.kill(os.getpid(), signal.SIGKILL)


async def full_at_the_start(folder: Path) -> None:
    """The room is named, failed writes are counted, and blocks are taken when there is room."""
    ballast = fill(folder)
    tier = await opened(folder / "blocks")
    await put(tier, range(3))
    assert tier.names() == []
    figures = tier.statistics()
    assert figures.failed == 3
    assert "0 B free of 4 MiB" in figures.fault
    assert re.search(r"these blocks may take 3.\d+ MiB more", figures.fault)
    ballast.unlink()
    await put(tier, range(3, 6))
    await put(tier, range(6, 9))
    assert await readable(tier) >= {6, 7, 8}
    assert tier.statistics().fault == ""
    await tier.close()


async def killed_and_full(folder: Path) -> None:
    """A member whose predecessor was killed has its blocks, also those in the journal."""
    killed_while_writing(folder / "blocks")
    ballast = fill(folder)
    tier = await opened(folder / "blocks")
    assert await readable(tier) == set(range(BLOCKS))
    await put(tier, range(BLOCKS, 3 * BLOCKS))
    failed = tier.statistics().failed
    assert failed > 0
    assert "free of 4 MiB" in tier.statistics().fault
    assert await readable(tier)
    ballast.unlink()
    await put(tier, range(3 * BLOCKS, 4 * BLOCKS))
    assert len(await readable(tier)) > BLOCKS
    assert (tier.statistics().failed, tier.statistics().fault) == (failed, "")
    await tier.close()
    assert len(await readable(await opened(folder / "blocks"))) > BLOCKS


async def full_at_each_moment(folder: Path) -> None:
    """Whatever is free when blocks are written and copied from the journal, they are whole."""
    for free in range(0, 1 << 20, 96 << 10):
        blocks, ballast = folder / f"blocks{free}", folder / "ballast"
        tier = await opened(blocks)
        await put(tier, range(2))
        fill(folder)
        os.truncate(ballast, ballast.stat().st_size - free)
        await put(tier, range(2, 50))
        found = await readable(tier)
        assert found == {int(name) for name in tier.names()}
        command = [sys.executable, "-m", "tests.kv.workers.full_disks", "read", str(blocks)]
        await tier.close()
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=True)
        assert {int(number) for number in done.stdout.split()} == found
        ballast.unlink()
        shutil.rmtree(blocks)


async def read(blocks: Path) -> None:
    """Print the blocks that are there."""
    print(*await readable(await opened(blocks)))


async def no_inodes(folder: Path) -> None:
    """The cause is named, where the disk has room."""
    made = []
    with suppress(OSError):
        for number in range(1000):
            (folder / f"file{number}").touch()
            made.append(number)
    tier = await opened(folder / "blocks")
    await put(tier, range(3))
    assert "has no free inodes" in tier.statistics().fault
    for number in made:
        (folder / f"file{number}").unlink()
    await put(tier, range(3, 9))
    assert len(await readable(tier)) >= 5
    await tier.close()


async def killed_and_read_only(folder: Path) -> None:
    """Blocks that were copied from the journal are read, and it goes on when it can be written."""
    blocks = folder / "blocks"
    tier = await opened(blocks)
    await put(tier, range(4))
    await tier.close()
    killed_while_writing(blocks)
    remount(folder, "ro,size=4m")
    tier = await opened(blocks)
    assert await readable(tier) >= {0, 1, 2, 3}
    assert "is read-only" in tier.statistics().fault
    await put(tier, range(30, 34))
    assert tier.statistics().failed >= 4
    assert await readable(tier) >= {0, 1, 2, 3}
    remount(folder, "rw,size=4m")
    await put(tier, range(34, 38))
    await put(tier, range(38, 40))
    assert await readable(tier) >= {*range(BLOCKS), 38, 39}
    assert tier.statistics().fault == ""
    await tier.close()
    remount(folder, "ro,size=4m")
    assert await readable(await opened(blocks)) >= {38, 39}


async def deleted(folder: Path) -> None:
    """A new folder is made, and earlier blocks are misses."""
    tier = await opened(folder / "blocks")
    await put(tier, range(4))
    shutil.rmtree(folder / "blocks")
    await put(tier, range(4, 8))
    assert await readable(tier) == {4, 5, 6, 7}
    await tier.close()
    assert await readable(await opened(folder / "blocks")) == {4, 5, 6, 7}


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)


def main() -> None:
    """Run one scenario."""
    scenarios: dict[str, Callable[[Path], Awaitable[None]]] = globals()
    block_database.RETRY_S = 0.0
    name, folder = sys.argv[1:]

    async def scenario() -> None:
        await scenarios[name](Path(folder))

    asyncio.run(scenario())


if __name__ == "__main__":
    main()
