"""Contents of publications: what cannot be read twice is read once; changes are noticed."""

# ruff: noqa: ASYNC240 - the files are small

from __future__ import annotations

import asyncio
import mmap
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from innet.errors import InterestRefused, ObjectIncomplete, TransportError
from innet.names import with_segment
from innet.ndn.objects import fetch, publish
from innet.ndn.objects.sources import ContentSource, open_source
from tests.ndn.direct_client import DirectClient


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "content").write_bytes(b"content")
    return tmp_path / "content"


@pytest.mark.parametrize("given_up", [False, True])
async def test_a_read_during_a_withdrawal_reads_no_other_file(
    file: Path, monkeypatch: pytest.MonkeyPatch, given_up: bool
) -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    read = os.pread
    contents = []

    def pread(descriptor: int, size_bytes: int, offset: int) -> bytes:
        begun.set()
        go_on.wait(20)
        contents.append(read(descriptor, size_bytes, offset))
        ended.set()
        return contents[-1]

    source = await open_source(file)
    monkeypatch.setattr(os, "pread", pread)
    reading = asyncio.ensure_future(source.read(0, 7))
    await asyncio.to_thread(begun.wait, 20)
    if given_up:
        reading.cancel()
    source.close()
    (file.parent / "secret").write_bytes(b"another")
    secret = os.open(file.parent / "secret", os.O_RDONLY)  # gets the lowest number that is free
    go_on.set()
    try:
        await asyncio.gather(reading, return_exceptions=True)
        await asyncio.to_thread(ended.wait, 20)
        assert contents == [b"content"]
    finally:
        os.close(secret)


async def test_closing_twice_closes_no_other_file(file: Path) -> None:
    source = await open_source(file)
    source.close()
    with file.open("rb") as other:
        source.close()
        assert other.read() == b"content"
    with pytest.raises(TransportError, match="not published any more"):
        await source.read(0, 7)


LARGE = bytes(range(256)) * (3 << 12)  # three blocks


async def whole(source: ContentSource) -> bytes:
    return await source.read(0, source.size_bytes + 1)


async def test_parts_of_a_file_are_read_across_blocks(file: Path) -> None:
    file.write_bytes(LARGE + b"end")
    source = await open_source(file)
    assert source.size_bytes == len(LARGE) + 3
    assert await whole(source) == LARGE + b"end"
    assert await source.read((1 << 20) - 1, 3) == LARGE[(1 << 20) - 1 : (1 << 20) + 2]
    assert await source.read(len(LARGE), 8000) == b"end"
    assert await source.read(len(LARGE) + 3, 8000) == b""


async def test_a_fifo_is_read_to_its_end(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    opening = asyncio.ensure_future(open_source(fifo))
    await asyncio.to_thread(fifo.write_bytes, LARGE)
    assert await whole(await opening) == LARGE


@pytest.mark.parametrize("path", ["/dev/fd/{}", "/proc/self/fd/{}"])
@pytest.mark.parametrize("kind", ["pipe", "socket", "deleted file"])
async def test_descriptors_of_the_process_are_read_to_their_end(
    tmp_path: Path, path: str, kind: str
) -> None:
    if kind == "pipe":
        ours, theirs = os.pipe()
        os.write(theirs, b"content")
        os.close(theirs)
    elif kind == "socket":
        one, other = socket.socketpair()
        other.sendall(b"content")
        other.close()
        ours = one.detach()
    else:
        (tmp_path / "deleted").write_bytes(b"content")
        ours = os.open(tmp_path / "deleted", os.O_RDONLY)
        (tmp_path / "deleted").unlink()
    try:
        assert await whole(await open_source(Path(path.format(ours)))) == b"content"
    finally:
        os.close(ours)


@pytest.mark.parametrize("path", ["/proc/version", "/proc/self/status", "/sys/kernel/mm/ksm/run"])
async def test_files_whose_size_the_kernel_does_not_say_are_published_whole(path: str) -> None:
    if not Path(path).exists():
        pytest.skip(f"this kernel has no {path}")
    content = await whole(await open_source(Path(path)))
    assert content.splitlines()[0] == Path(path).read_bytes().splitlines()[0]


async def test_an_empty_file_and_a_sparse_one_are_what_they_are(file: Path) -> None:
    file.write_bytes(b"")
    assert await whole(await open_source(file)) == b""
    os.truncate(file, 5 << 20)
    assert await whole(await open_source(file)) == bytes(5 << 20)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/dev/zero", "a device without an end"),
        ("/dev/null", "a device without an end"),
        ("/tmp", "it is a folder"),
        ("/nowhere/file", "No such file"),
        ("socket", "No such device"),
    ],
)
async def test_what_has_no_content_is_refused(tmp_path: Path, path: str, why: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with pytest.raises(TransportError, match=why):
            await open_source(tmp_path / path)


@pytest.mark.parametrize("content", ["photo.jpg", 5, None])
async def test_other_types_are_no_content(content: object) -> None:
    with pytest.raises(TypeError):
        await open_source(content)  # type: ignore[arg-type]


def overwrite(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(2 << 20)
        opened.write(b"X")


def overwrite_and_restore_times(file: Path) -> None:
    times = file.stat()
    overwrite(file)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def overwrite_in_memory(file: Path) -> None:
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as mapped:
        mapped[2 << 20] = 7


CHANGES = [
    overwrite,
    overwrite_and_restore_times,
    overwrite_in_memory,
    lambda file: os.truncate(file, 2 << 20),
    lambda file: os.truncate(file, 0),
    lambda file: file.write_bytes(bytes(len(LARGE))),
]


@pytest.mark.parametrize("change", CHANGES)
async def test_changed_content_is_an_error_and_never_a_mixture(
    file: Path, change: Callable[[Path], object]
) -> None:
    file.write_bytes(LARGE)
    source = await open_source(file)
    assert await source.read(0, 10) == LARGE[:10]
    change(file)
    with pytest.raises(TransportError, match="changed while it was published"):
        await source.read(2 << 20, 10)


async def test_what_does_not_change_the_published_bytes_is_no_error(file: Path) -> None:
    file.write_bytes(LARGE)
    source = await open_source(file)
    with file.open("ab") as opened:
        opened.write(b"more")
    file.chmod(0o600)
    file.rename(file.with_name("renamed")).unlink()
    assert await whole(source) == LARGE


async def test_a_publication_ends_when_its_file_changes(file: Path) -> None:
    file.write_bytes(LARGE)
    client = DirectClient()
    async with await publish(client, "/x", file) as published:
        overwrite(file)
        with pytest.raises(ObjectIncomplete, match="was refused"):
            await fetch(client, "/x")
        with pytest.raises(TransportError, match="changed while it was published"):
            await published.until_failure()
        with pytest.raises(InterestRefused):  # no segment any more, also not of those unchanged
            await client.express(with_segment(published.versioned, 0))
