"""A published file, read by threads while it may be withdrawn."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from innet.errors import TransportError
from innet.ndn.objects.publication import FileSource


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

    monkeypatch.setattr(os, "pread", pread)
    source = FileSource(file)
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
    source = FileSource(file)
    source.close()
    with file.open("rb") as other:
        source.close()
        assert other.read() == b"content"
    with pytest.raises(TransportError, match="not published any more"):
        await source.read(0, 7)
