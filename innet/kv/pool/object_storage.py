"""Blocks in an object storage that fsspec reaches, such as S3: one object for each block.

An object's name has the number, the depth and the size of its record, and then the block's name.
Its contents are the length of the root manifest in 4 bytes, the root manifest, and the block.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote, unquote

import numpy as np

from innet.errors import KVError
from innet.kv.pool.block_database import BlockRecord, WriteFailures
from innet.kv.pool.network import Sealed
from innet.private_files import make_private_folder

_LENGTH_BYTES: Final = 4
_LOCAL: Final = ("file", "local")
"""The protocols of this machine's file system."""
_OBJECT_NAME: Final = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)\.(%2F.+)")
"""Blocks' names begin with a slash; other objects of a similar name are not the tier's."""

_log = logging.getLogger(__name__)


class BlockRecords(Protocol):
    """The records of a tier: in a ``BlockDatabase`` or an :class:`ObjectStorage`."""

    @property
    def is_too_large(self) -> bool: ...

    @property
    def batch_bytes(self) -> int: ...

    @property
    def is_writable(self) -> bool: ...

    @property
    def fault(self) -> str: ...

    @property
    def may_reopen(self) -> bool: ...

    def reopen(self) -> list[BlockRecord] | None: ...

    def records(self) -> list[BlockRecord]: ...

    def read(self, row: int) -> Sealed | None: ...

    def write(self, dropped: Sequence[int], added: Sequence[BlockRecord]) -> bool: ...

    def shrink(self) -> bool: ...

    def close(self) -> None: ...


def is_url(folder: str | Path) -> bool:
    """Whether blocks below ``folder`` are in an object storage.

    >>> is_url("s3://bucket/blocks"), is_url("/var/lib/innet")
    (True, False)
    """
    return isinstance(folder, str) and "://" in folder


def require_known(url: str) -> None:
    """Raise KVError for a URL that no storage can have.

    Whether the library for a storage is installed is not checked: it is needed where members are.
    """
    try:
        from fsspec.registry import get_filesystem_class
    except ImportError:
        return
    for part in url.split("::"):
        protocol, _, path = part.partition("://")
        try:
            get_filesystem_class(protocol)
        except ImportError:
            continue
        except ValueError as error:
            raise KVError(
                f"fsspec knows no storage {protocol!r} of the URL {url!r}. Give one that it knows, "
                "such as s3://bucket/blocks or file:///var/lib/blocks"
            ) from error
        if protocol in _LOCAL and not path.startswith("/"):
            raise KVError(
                f"the path of the URL {url!r} is relative. Give an absolute one, such as "
                f"{protocol}:///var/lib/innet"
            )


class ObjectStorage:
    """Records below a URL, used by one pool of one process.

    Failed calls lose blocks, never raise: the storage may be out of reach for a while.
    """

    is_too_large: Final = False
    """Never: a deleted object takes no room."""
    batch_bytes: Final = 16 << 20
    is_writable: Final = True
    """A write that fails is tried again with the next block."""
    may_reopen: Final = False

    def __init__(self, url: str) -> None:
        """``url`` as fsspec takes it, such as ``s3://bucket/prefix``.

        Raises:
            KVError: fsspec or its library for this kind of storage is not installed, or the
                storage does not answer.
        """
        try:
            from fsspec.core import url_to_fs

            self._files, self._folder = url_to_fs(url)
            self._is_local = self._files.protocol == _LOCAL
            if self._is_local:
                make_private_folder(Path(self._folder))
            self._listed = self._list()
        except ImportError as error:
            raise KVError(
                f"blocks cannot be kept in {url}: {error}. Install fsspec and its library for this "
                "storage, for S3: pip install 'innet[objects]'"
            ) from error
        except Exception as error:  # of whatever library is behind fsspec
            raise KVError(
                f"blocks cannot be kept in {url}: {error}. Name a bucket or a folder that this "
                "user can write to, and check the storage's endpoint and keys"
            ) from error
        self._paths = {record.row: self._path(record) for record in self._listed}
        self._failures = WriteFailures(self._folder)

    @property
    def fault(self) -> str:
        """Why the last write failed; empty: it did not."""
        return self._failures.fault

    def reopen(self) -> list[BlockRecord] | None:
        """There is nothing to open."""
        return None

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
            if self._is_local:
                for record in added:
                    Path(self._path(record)).chmod(0o600)
        except Exception as error:  # of whatever library is behind fsspec
            self._failures.failed(error)
            for record in added:  # part of one may be there, and takes room
                with suppress(Exception):
                    self._files.rm_file(self._path(record))
            return False
        if added:
            self._failures.succeeded()
        self._paths |= {record.row: self._path(record) for record in added}
        return True

    def shrink(self) -> bool:
        """There is nothing to do."""
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
    """The record that an object's name describes; ``None``: no tier has written it."""
    found = _OBJECT_NAME.fullmatch(str(path).rsplit("/", 1)[-1])
    if found is None:
        return None
    row, depth, size, name = found.groups()
    return BlockRecord(int(row), unquote(name), int(depth), int(size))
