"""Files that a fetch writes: nobody else decides where the bytes go."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from innet.errors import TransportError
from innet.ndn.objects.sink import open_sink

CHUNK = bytes(range(256)) * (5 << 12)
"""More than a sink holds back, so each is written at once."""


async def fetch(path: Path, *chunks: bytes) -> None:
    sink = await open_sink(path)
    for chunk in chunks:
        await sink.write([chunk])
    await sink.finish()


def test_a_planted_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "diary").write_bytes(b"mine")
    (tmp_path / "object.part").symlink_to(tmp_path / "diary")
    with pytest.raises(TransportError, match="remove it, or choose another"):
        asyncio.run(fetch(tmp_path / "object", CHUNK))
    assert (tmp_path / "diary").read_bytes() == b"mine"
    assert not (tmp_path / "object").exists()


def test_remains_of_an_earlier_fetch_are_removed_and_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "object.part").write_bytes(b"half of an object")
    os.link(tmp_path / "object.part", tmp_path / "other name")
    asyncio.run(fetch(tmp_path / "object", CHUNK, CHUNK, b"end"))
    assert (tmp_path / "object").read_bytes() == CHUNK + CHUNK + b"end"
    assert (tmp_path / "other name").read_bytes() == b"half of an object"
    assert not (tmp_path / "object.part").exists()


def test_a_file_of_another_user_is_left_alone(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a file of another user")
    part = tmp_path / "object.part"
    part.write_bytes(b"theirs")
    os.chown(part, 65534, 65534)
    with pytest.raises(TransportError, match="not a file that an earlier fetch"):
        asyncio.run(fetch(tmp_path / "object", CHUNK))
    assert part.read_bytes() == b"theirs"


@pytest.mark.parametrize("by", ["a link", "a file"])
def test_a_part_replaced_by_another_user_is_not_written_to(tmp_path: Path, by: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a file of another user")
    theirs = tmp_path / "theirs"
    theirs.write_bytes(b"theirs")
    os.chown(theirs, 65534, 65534)

    async def run() -> None:
        sink = await open_sink(tmp_path / "object")
        await sink.write([CHUNK])
        part = tmp_path / "object.part"
        part.unlink()
        part.symlink_to(theirs) if by == "a link" else theirs.rename(part)
        with pytest.raises(TransportError, match=r"was replaced|cannot write"):
            await sink.write([CHUNK])
        assert part.read_bytes() == b"theirs"

    asyncio.run(run())


def test_a_fifo_receives_the_object_and_survives(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async def run() -> bytes:
        reading = asyncio.create_task(asyncio.to_thread(fifo.read_bytes))
        await fetch(fifo, CHUNK, b"", CHUNK)
        return await reading

    assert asyncio.run(run()) == CHUNK + CHUNK
    assert stat.S_ISFIFO(fifo.lstat().st_mode)


def test_a_fetch_that_fails_ends_the_input_of_a_fifo_s_reader(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async def run() -> bytes:
        reading = asyncio.create_task(asyncio.to_thread(fifo.read_bytes))
        sink = await open_sink(fifo)
        del sink  # as a fetch does that raises
        return await reading

    assert asyncio.run(run()) == b""


def test_a_reader_that_ends_early_is_an_error(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async def run() -> None:
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        sink = await open_sink(fifo)
        os.close(reader)
        with pytest.raises(TransportError, match="Broken pipe"):
            await sink.write([CHUNK])

    asyncio.run(run())


def test_a_fetch_that_waits_for_readers_can_be_cancelled(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async def without_reader() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await open_sink(fifo)

    async def with_slow_reader() -> None:
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        sink = await open_sink(fifo)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await sink.write([CHUNK])
        os.close(reader)  # also ends the thread that writes

    asyncio.run(without_reader())
    asyncio.run(with_slow_reader())


def test_a_link_is_followed_and_the_part_lies_beside_its_target(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(Path("folder") / "object")
    asyncio.run(fetch(tmp_path / "link", CHUNK))
    assert (tmp_path / "link").is_symlink()
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["object"]
    assert (tmp_path / "link").read_bytes() == CHUNK


def test_a_link_of_another_user_in_a_shared_folder_is_not_followed(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a file of another user")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (tmp_path / "diary").write_bytes(b"mine")
    (shared / "object").symlink_to(tmp_path / "diary")
    os.chown(shared / "object", 65534, 65534, follow_symlinks=False)
    with pytest.raises(TransportError, match="another user put object into"):
        asyncio.run(fetch(shared / "object", CHUNK))
    assert (tmp_path / "diary").read_bytes() == b"mine"


def test_a_fifo_that_replaces_the_file_meanwhile_survives(tmp_path: Path) -> None:
    async def run() -> None:
        sink = await open_sink(tmp_path / "object")
        await sink.write([CHUNK])
        os.mkfifo(tmp_path / "object")
        with pytest.raises(TransportError, match="was replaced"):
            await sink.finish()

    asyncio.run(run())
    assert stat.S_ISFIFO((tmp_path / "object").lstat().st_mode)
