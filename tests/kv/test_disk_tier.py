"""Blocks on disk: they survive the process, and whatever becomes of the file is a miss at worst."""

from __future__ import annotations

import asyncio
import hashlib
import os
import pwd
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from innet.errors import KVError
from innet.kv.pool import disk_tier
from innet.kv.pool.block_database import PAGE_BYTES, BlockDatabase, record_bytes
from innet.kv.pool.disk_tier import FILE_NAME, DiskTier, Result
from innet.kv.pool.network import Sealed
from tests.kv.fake_network import run
from tests.kv.pools import InlineDisk

CAPACITY = 1 << 20


def block(number: int, size: int = 20000) -> Sealed:
    contents = np.random.default_rng(number).integers(0, 256, size, np.uint8)
    return Sealed(contents, hashlib.sha256(contents.data).digest())


def is_whole(found: Sealed) -> bool:
    return hashlib.sha256(found.contents.data).digest() == found.root


async def opened(folder: Path, capacity: int = CAPACITY) -> DiskTier:
    return await DiskTier.open(folder, capacity, work=InlineDisk())


async def filled(folder: Path, blocks: int, capacity: int = CAPACITY) -> None:
    tier = await opened(folder, capacity)
    for number in range(blocks):
        tier.put(str(number), block(number), number)
    await tier.close()


async def whole_blocks(folder: Path, capacity: int = CAPACITY) -> set[int]:
    """The blocks that can be read and are as they were."""
    tier = await opened(folder, capacity)
    found = {name: await tier.get(name) for name in tier.names()}
    await tier.close()
    whole = {name for name, sealed in found.items() if sealed is not None and is_whole(sealed)}
    return {n for n in range(1000) if str(n) in whole and found[str(n)].root == block(n).root}  # type: ignore[union-attr]


def test_blocks_are_there_again_when_the_folder_is_opened_again(tmp_path: Path) -> None:
    async def work() -> None:
        await filled(tmp_path / "new" / "folder", 20)
        tier = await opened(tmp_path / "new" / "folder")
        assert [tier.depth(str(n)) for n in range(20)] == list(range(20))
        for number in range(20):
            found = await tier.get(str(number))
            assert found is not None
            assert np.array_equal(found.contents, block(number).contents)
            assert found.root == block(number).root
        assert tier.remove("3")
        await tier.close()
        assert await whole_blocks(tmp_path / "new" / "folder") == set(range(20)) - {3}

    run(work())


def test_a_full_tier_drops_what_its_policy_says_and_the_file_does_not_grow(tmp_path: Path) -> None:
    async def work() -> None:
        tier = await opened(tmp_path)
        gone: list[str] = []
        tier.on_gone = gone.append
        room = CAPACITY // record_bytes("0", 32, 20000)
        for number in range(4 * room):
            tier.put(str(number), block(number), 0)
            await tier.flush()
            assert tier.statistics().used_bytes <= CAPACITY
            assert await tier.get("0") is not None
        assert len(tier.names()) == room
        assert gone == [str(n) for n in range(1, 1 + 3 * room)]
        assert tier.statistics().failed == 0
        await tier.close()
        assert (tmp_path / FILE_NAME).stat().st_size <= CAPACITY + 8 * PAGE_BYTES

    run(work())


SIZES = st.sampled_from([1, 40, 8000, PAGE_BYTES - 200, PAGE_BYTES]) | st.integers(1, 50000)


# No two of these fit into one page.
@example(sizes=[PAGE_BYTES // 2 + 100] * 60, seed=0)
@given(sizes=st.lists(SIZES, min_size=30, max_size=60), seed=st.integers(0, 9))
@settings(max_examples=8, deadline=None)
def test_blocks_of_any_sizes_fit_into_the_file_as_counted(sizes: list[int], seed: int) -> None:
    async def work(folder: Path) -> None:
        tier = await opened(folder, 20 * PAGE_BYTES)
        for number, size in enumerate(sizes):
            tier.put(str(number), block(number, size), 0)
            if number % 7 == seed:
                tier.remove(str(number // 2))
            if number % 3 == 0:
                await tier.flush()
        await tier.flush()
        assert tier.statistics().failed == 0
        for name in tier.names():
            found = await tier.get(name)
            assert found is not None
            assert found.root == block(int(name), sizes[int(name)]).root
        await tier.close()

    with tempfile.TemporaryDirectory() as folder:
        run(work(Path(folder)))


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_what_is_damaged_is_missed_and_the_tier_goes_on(data: st.DataObject) -> None:
    async def work(folder: Path) -> None:
        await filled(folder, 8)
        path = folder / FILE_NAME
        content = bytearray(path.read_bytes())
        # The first bytes of pages show their type: most others are blocks' contents.
        offsets = st.one_of(
            st.integers(0, len(content) - 1),
            st.builds(
                lambda page, byte: page * PAGE_BYTES + byte,
                st.integers(0, len(content) // PAGE_BYTES - 1),
                st.integers(0, 120),
            ),
        )
        for offset in data.draw(st.lists(offsets, max_size=4)):
            content[offset] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(content[: data.draw(st.integers(0, len(content)) | st.none())])
        assert await whole_blocks(folder) <= set(range(8))
        await filled(folder, 12)
        assert await whole_blocks(folder) >= set(range(8, 12))

    with tempfile.TemporaryDirectory() as folder:
        run(work(Path(folder)))


def test_a_header_that_forbids_to_write_is_damage(tmp_path: Path) -> None:
    async def work() -> None:
        await filled(tmp_path, 8)
        content = bytearray((tmp_path / FILE_NAME).read_bytes())
        content[18] = 3  # the version of the format that is needed to write
        (tmp_path / FILE_NAME).write_bytes(content)
        await filled(tmp_path, 12)
        assert await whole_blocks(tmp_path) >= set(range(8, 12))

    asyncio.run(work())


def test_a_damaged_file_that_cannot_be_replaced_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: Path, missing_ok: bool = False) -> None:
        raise PermissionError("the file system is read-only")

    async def work() -> None:
        await filled(tmp_path, 1)
        (tmp_path / FILE_NAME).write_bytes(b"no database" * PAGE_BYTES)
        monkeypatch.setattr(Path, "unlink", refuse)
        with pytest.raises(KVError, match=r"blocks cannot be kept in .* read-only"):
            await opened(tmp_path)

    run(work())
    database = BlockDatabase(tmp_path / "another.sqlite", CAPACITY)
    with pytest.raises(KVError, match=r"blocks cannot be kept in .* read-only"):
        database.reset()


def test_a_block_larger_than_what_may_wait_is_written_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 100_000
    monkeypatch.setattr(disk_tier, "MOST_UNWRITTEN_BYTES", size - 1)

    async def work() -> None:
        tier = await opened(tmp_path, 2 * size)
        large = Sealed(np.zeros(size, np.uint8), b"")
        tier.put("1", large, 0)
        tier.put("2", block(2), 0)
        assert ("1" in tier, "2" in tier) == (True, False)
        await tier.flush()
        tier.put("2", block(2), 0)
        await tier.close()
        assert await whole_blocks(tmp_path, 2 * size) == {2}

    run(work())


def test_one_flipped_byte_of_contents_costs_that_block_alone(tmp_path: Path) -> None:
    async def work() -> None:
        await filled(tmp_path, 8)
        path = tmp_path / FILE_NAME
        content = bytearray(path.read_bytes())
        content[content.index(block(5).contents.tobytes()[:64]) + 10] ^= 1
        path.write_bytes(content)
        assert await whole_blocks(tmp_path) == set(range(8)) - {5}

    run(work())


@contextmanager
def disk_full_beyond(size_bytes: int) -> Iterator[None]:
    """No file of this process can grow larger."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


def test_what_a_full_disk_does_not_take_is_lost_counted_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        await filled(tmp_path, 4)
        tier = await opened(tmp_path)
        gone: list[str] = []
        tier.on_gone = gone.append
        with disk_full_beyond(100_000):
            for number in range(4, 30):
                tier.put(str(number), block(number), 0)
                await tier.flush()
        assert tier.statistics().failed == len(gone) > 1
        assert caplog.text.count("cannot be written to") == 1
        assert not any(name in tier for name in gone)
        assert all([await tier.get(str(n)) is not None for n in range(4)])
        tier.put("99", block(99), 0)
        await tier.close()
        assert await whole_blocks(tmp_path) >= {0, 1, 2, 3, 99}

    run(work())


def test_a_folder_is_one_pools_alone(tmp_path: Path) -> None:
    async def work() -> None:
        tier = await opened(tmp_path)
        with pytest.raises(KVError, match="folder of its own"):
            await opened(tmp_path)
        await tier.close()
        await (await opened(tmp_path)).close()

    run(work())


def test_what_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KVError, match="blocks cannot be kept"):
        run(opened(tmp_path / "file"))


OPENS = """
import asyncio, sys
from innet.errors import KVError
from innet.kv.pool.disk_tier import DiskTier
try:
    asyncio.run(DiskTier.open(sys.argv[1], 1 << 20))
except KVError as error:
    print(error)
"""
CAPABILITIES = "-chown,-dac_override,-dac_read_search,-fowner"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's folder")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="there is no setpriv")
@pytest.mark.parametrize("place", ["{}", "{}/below", "file://{}/below"])
def test_a_folder_of_another_user_is_refused_with_the_reason(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o755)
    os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
    limits = [f"--{which}={CAPABILITIES}" for which in ("bounding-set", "inh-caps")]
    command = ["setpriv", *limits, sys.executable, "-c", OPENS, place.format(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("blocks cannot be kept in")
    assert "permi" in done.stdout.lower()  # denied, or not permitted
    assert list(folder.iterdir()) == []


def size_of(folder: Path) -> int:
    return (folder / FILE_NAME).stat().st_size


def test_all_files_of_a_disk_fit_its_quota(tmp_path: Path) -> None:
    quota = 64 << 20
    sizes = [0]

    def measured(done: Result) -> Result:
        sizes.append(sum(path.stat().st_size for path in tmp_path.iterdir()))
        return done

    class Measuring(InlineDisk):
        async def run(self, work: Callable[[], Result]) -> Result:
            return measured(work())

    async def work() -> None:
        tier = await DiskTier.open(tmp_path, quota, work=Measuring())
        for number in range(100):
            tier.put(str(number), block(number, 1 << 20), number)
            if number % 20 == 19:
                await tier.flush()
        await tier.close()

    run(work())
    assert quota // 2 < max(sizes) <= quota


def test_a_smaller_capacity_keeps_the_newest_blocks_that_fit_and_shrinks_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    small, most = CAPACITY // 2, CAPACITY // 2 + 8 * PAGE_BYTES
    room = small // record_bytes("0", 32, 20000)

    async def work() -> None:
        await filled(tmp_path, 30)
        assert await whole_blocks(tmp_path, 2 * CAPACITY) == set(range(30))
        assert not caplog.text
        assert size_of(tmp_path) > most
        tier = await opened(tmp_path, small)
        assert "is larger than its capacity, and shrinks" in caplog.text
        assert tier.statistics().used_bytes <= small
        await tier.flush()
        assert size_of(tmp_path) <= most
        tier.put("99", block(99), 0)
        await tier.close()
        assert size_of(tmp_path) <= most
        assert await whole_blocks(tmp_path, small) == {*range(31 - room, 30), 99}

    run(work())


def test_a_file_that_could_not_shrink_to_its_end_does_so_at_the_next_start(tmp_path: Path) -> None:
    small = CAPACITY // 2

    class Yielding(InlineDisk):
        async def run(self, work: Callable[[], Result]) -> Result:
            await asyncio.sleep(0)
            return work()

    async def work() -> None:
        await filled(tmp_path, 30)
        tier = await DiskTier.open(tmp_path, small, work=Yielding())
        await tier.close()  # which does not wait for it
        assert size_of(tmp_path) > small + 8 * PAGE_BYTES
        whole = await whole_blocks(tmp_path, small)
        assert len(whole) == small // record_bytes("0", 32, 20000)
        tier = await opened(tmp_path, small)
        await tier.flush()
        assert size_of(tmp_path) <= small + 8 * PAGE_BYTES
        await tier.close()
        assert await whole_blocks(tmp_path, small) == whole

    run(work())


def test_a_large_file_that_cannot_shrink_is_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Databases of other programs, for example, in which SQLite cannot move pages."""
    path = tmp_path / FILE_NAME
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE t (x)")
        other.execute("INSERT INTO t VALUES (zeroblob(?))", (CAPACITY,))
        other.commit()
    run(filled(tmp_path, 3, CAPACITY // 2))
    assert "is larger than its capacity, and starts empty, because SQLite" in caplog.text
    assert run(whole_blocks(tmp_path, CAPACITY // 2)) == {0, 1, 2}
    assert size_of(tmp_path) < CAPACITY // 2


_WRITES_FOR_EVER = """
import asyncio, sys
from hashlib import sha256
from pathlib import Path
import numpy as np
from innet.kv.pool import DiskTier
from innet.kv.pool.network import Sealed
from innet.kv.pool import disk_tier

def block(number):
    contents = np.random.default_rng(number).integers(0, 256, 20000, np.uint8)
    return Sealed(contents, sha256(contents).digest())

async def work():
    tier = await DiskTier.open(Path(sys.argv[1]), 1 << 20)
    for number in range(1000):
        tier.put(str(number), block(number), 0)
        if number >= 10:
            await tier.flush()
        if number == 20:
            print("go", flush=True)

asyncio.run(work())
"""


def test_what_was_written_before_a_kill_is_there_afterwards(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WRITES_FOR_EVER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"go\n"
        process.kill()
    whole = run(whole_blocks(tmp_path))
    assert len(whole) > 10
    assert max(whole) >= 20


async def test_a_thread_does_what_would_block(tmp_path: Path) -> None:
    tier = await DiskTier.open(tmp_path, CAPACITY)
    for number in range(10):
        tier.put(str(number), block(number), 0)
        # Written or not.
        found = await tier.get(str(number))
        assert found is not None
        assert is_whole(found)
    assert tier.remove("0")
    found_all = await asyncio.gather(*(tier.get(str(n)) for n in range(10)))
    assert [found is not None for found in found_all] == [False] + [True] * 9
    await tier.close()


def modes(folder: Path) -> dict[str, str]:
    return {path.name: oct(path.stat().st_mode & 0o777) for path in (folder, *folder.iterdir())}


def test_no_other_user_reads_the_blocks(tmp_path: Path) -> None:
    folder = tmp_path / "blocks"
    previous = os.umask(0)
    try:
        with opened_and_written(folder) as seen:
            assert seen == dict.fromkeys(seen, "0o600") | {"blocks": "0o700"}
            assert {FILE_NAME, FILE_NAME + "-wal"} <= seen.keys()
    finally:
        os.umask(previous)


def test_files_that_others_could_read_are_closed_to_them(tmp_path: Path) -> None:
    folder = tmp_path / "blocks"
    run(filled(folder, 3))
    folder.chmod(0o777)
    (folder / FILE_NAME).chmod(0o666)
    assert run(whole_blocks(folder)) == {0, 1, 2}
    assert modes(folder) == {"blocks": "0o700", FILE_NAME: "0o600"}


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "blocks"
    folder.mkdir()
    (tmp_path / "diary").write_bytes(b"mine")
    (folder / FILE_NAME).symlink_to(tmp_path / "diary")
    with pytest.raises(KVError, match="not a regular file"):
        run(filled(folder, 1))
    assert (tmp_path / "diary").read_bytes() == b"mine"


@contextmanager
def opened_and_written(folder: Path) -> Iterator[dict[str, str]]:
    """The modes of a tier's files while it has them open."""

    async def write() -> dict[str, str]:
        tier = await opened(folder)
        tier.put("0", block(0), 0)
        await tier.flush()
        found = modes(folder)
        await tier.close()
        return found

    yield run(write())
