"""Files that a fetch writes: nobody else decides where the bytes go."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from innet.errors import TransportError
from innet.ndn.objects.sink import FileSink

CHUNK = bytes(range(256)) * (5 << 12)
"""More than a sink holds back, so each is written at once."""


async def fetch(path: Path, *chunks: bytes) -> None:
    sink = FileSink(path)
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
        sink = FileSink(tmp_path / "object")
        await sink.write([CHUNK])
        part = tmp_path / "object.part"
        part.unlink()
        part.symlink_to(theirs) if by == "a link" else theirs.rename(part)
        with pytest.raises(TransportError, match=r"was replaced|cannot write"):
            await sink.write([CHUNK])
        assert part.read_bytes() == b"theirs"

    asyncio.run(run())
