"""Blocks in an object storage that fsspec reaches, such as S3: one object for each block.

An object's name has the number, the depth and the size of its record, and then the block's name.
Its contents are the length of the root manifest in 4 bytes, the root manifest, and the block.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote, unquote

import numpy as np

from innet.errors import KVError
from innet.kv.pool.block_database import BlockRecord
from innet.kv.pool.network import Sealed

_LENGTH_BYTES: Final = 4

_log = logging.getLogger(__name__)


class BlockRecords(Protocol):
    """The records of a tier: in a ``BlockDatabase`` or an :class:`ObjectStorage`."""

    def records(self) -> list[BlockRecord]: ...

    def read(self, row: int) -> Sealed | None: ...

    def write(self, dropped: Sequence[int], added: Sequence[BlockRecord]) -> bool: ...

    def close(self) -> None: ...


def is_url(folder: str | Path) -> bool:
    """Whether blocks below ``folder`` are in an object storage.

    >>> is_url("s3://bucket/blocks"), is_url("/var/lib/innet")
    (True, False)
    """
    return isinstance(folder, str) and "://" in folder


class ObjectStorage:
    """Records below a URL, used by one pool of one process.

    Failed calls lose blocks, never raise: the storage may be out of reach for a while.
    """

    def __init__(self, url: str) -> None:
        """``url`` as fsspec takes it, such as ``s3://bucket/prefix``.

        Raises:
            KVError: fsspec or its library for this kind of storage is not installed, or the
                storage does not answer.
        """
        try:
            from fsspec.core import url_to_fs

            # The local file system makes folders only when told to; others lack the option.
            options = {"auto_mkdir": True} if url.startswith(("file://", "local://")) else {}
            self._files, self._folder = url_to_fs(url, **options)
            self._listed = self._list()
        except Exception as error:
            raise KVError(
                f"blocks cannot be kept in {url}: {error}. Name a bucket that this user can write "
                "to, and install fsspec's library for it, for S3: pip install 'innet[objects]'"
            ) from error
        self._paths = {record.row: self._path(record) for record in self._listed}

    def records(self) -> list[BlockRecord]:
        """All records that were there at the beginning, in the order of writing."""
        return sorted(self._listed, key=lambda record: record.row)

    def read(self, row: int) -> Sealed | None:
        """The block of a record, not verified; ``None``: it cannot be read."""
        try:
            contents = self._files.cat_file(self._paths[row])
        except Exception as error:  # of whatever library is behind fsspec
            _log.warning("a block cannot be read: %s", error)
            return None
        end = _LENGTH_BYTES + int.from_bytes(contents[:_LENGTH_BYTES], "big")
        if not _LENGTH_BYTES <= end < len(contents):
            return None
        return Sealed(np.frombuffer(contents, np.uint8, offset=end), contents[_LENGTH_BYTES:end])

    def write(self, dropped: Sequence[int], added: Sequence[BlockRecord]) -> bool:
        """Delete and add records; false: not all of them."""
        try:
            for row in dropped:
                self._remove(row)
            if added:
                self._files.pipe({self._path(record): _contents(record) for record in added})
        except Exception as error:  # of whatever library is behind fsspec
            _log.warning("blocks cannot be written: %s", error)
            return False
        self._paths |= {record.row: self._path(record) for record in added}
        return True

    def close(self) -> None:
        """There is nothing to close."""

    def remove_all(self) -> None:
        """Delete all objects below the URL, as far as possible."""
        try:
            self._files.rm(self._folder, recursive=True)
        except Exception as error:  # of whatever library is behind fsspec
            _log.info("%s is not removed: %s", self._folder, error)

    def _remove(self, row: int) -> None:
        if row in self._paths:
            with suppress(FileNotFoundError):
                self._files.rm_file(self._paths[row])
            del self._paths[row]

    def _list(self) -> list[BlockRecord]:
        self._files.invalidate_cache()
        found = self._files.find(self._folder)
        return [record for path in found if (record := _record(path)) is not None]

    def _path(self, record: BlockRecord) -> str:
        name = f"{record.row}.{record.depth}.{record.size}.{quote(record.name, safe='')}"
        return f"{self._folder}/{name}"


def _contents(record: BlockRecord) -> bytes:
    assert record.block is not None
    root = record.block.root
    length = len(root).to_bytes(_LENGTH_BYTES, "big")
    return b"".join((length, root, record.block.contents.data))


def _record(path: Any) -> BlockRecord | None:
    """The record that an object's name describes; ``None``: the object is not a block."""
    row, depth, size, name = (*str(path).rsplit("/", 1)[-1].split(".", 3), "", "", "")[:4]
    if not all(part.isascii() and part.isdigit() for part in (row, depth, size)):
        return None
    return BlockRecord(int(row), unquote(name), int(depth), int(size))
