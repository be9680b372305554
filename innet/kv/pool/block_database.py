"""Blocks in a SQLite database: one file, one process."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from innet.errors import KVError
from innet.kv.pool.network import Sealed

_log = logging.getLogger(__name__)

PAGE_BYTES: Final = 16384
_PAGES_OF_ITS_OWN = 8
_PAGES_IN_A_TABLE = 256
"""SQLite's own pages: the first one, and one table for four times as many pages; and a map of pages
for each 3276 of them."""
_OVERHEAD_BYTES = 64
"""Of a record at most, in addition to its columns' contents."""
_LINK_BYTES = 4
"""In each page of a chain: the number of the next page."""
_LEAST_CHECKPOINT_PAGES = 64
_MOST_CHECKPOINT_PAGES = 1024
_PART_OF_CHECKPOINT = 16
"""A journal is copied into the database when it has this part of the database's pages, within
limits."""
_LEAST_QUOTA_BYTES: Final = 64 << 20
"""Smaller databases do not count their journal."""
_SHRINK_PAGES = 256
"""Moved at once, while reads wait."""
_INCREMENTAL: Final = 2
"""The mode of ``auto_vacuum`` in which free pages are given back on request."""
_LAST_ROW = 1 << 62
_FAULTS_OF_THE_DISK = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
)
_SCHEMA = (
    """
    CREATE TABLE IF NOT EXISTS block (
        id INTEGER PRIMARY KEY, name BLOB, depth INTEGER, size INTEGER, root BLOB, contents BLOB
    ) STRICT
    """,
    # Only this is read when the file is opened: reading the whole table would take long.
    "CREATE INDEX IF NOT EXISTS listed ON block (name, depth, size)",
)


@dataclass(frozen=True, slots=True, eq=False)
class BlockRecord:
    """A block in the file.

    Attributes:
        row: its number.
        name: of the block.
        depth: position of the block in its prompt.
        size: in the file, see :func:`record_bytes`.
        block: to write; ``None``: it is written.
    """

    row: int
    name: str
    depth: int
    size: int
    block: Sealed | None = None

    @classmethod
    def of(cls, row: int, name: str, depth: int, block: Sealed) -> BlockRecord:
        """A record to write."""
        size = record_bytes(name, len(block.root), block.contents.nbytes)
        return cls(row, name, depth, size, block)


def record_bytes(name: str, root_bytes: int, contents_bytes: int) -> int:
    """The size of a record in the file: whole pages.

    >>> record_bytes("/kv/a", 100, 1000), record_bytes("/kv/a", 100, 16384)
    (16384, 32768)
    """
    # The name is in the index as well, whose pages may be half full.
    payload = 3 * len(name) + root_bytes + contents_bytes + _OVERHEAD_BYTES
    return -(-payload // (PAGE_BYTES - _LINK_BYTES)) * PAGE_BYTES


def room_bytes(quota_bytes: int) -> int:
    """Bytes of records in a database that takes no more than a quota of a disk, with its journal.

    The journal has at most twice what it copies at once. Quotas below 64 MiB do not count it.

    >>> room_bytes(1 << 30) / (1 << 20)
    987.875
    """
    if quota_bytes < _LEAST_QUOTA_BYTES:
        return quota_bytes
    pages = quota_bytes // PAGE_BYTES
    own_pages = pages // _PAGES_IN_A_TABLE + _PAGES_OF_ITS_OWN
    return (pages - own_pages - 2 * _checkpoint_pages(pages)) * PAGE_BYTES


def _checkpoint_pages(pages: int) -> int:
    part = pages // _PART_OF_CHECKPOINT
    return max(_LEAST_CHECKPOINT_PAGES, min(part, _MOST_CHECKPOINT_PAGES))


class WriteFailures:
    """Logs the first of several failed writes in a row."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._level = logging.WARNING

    def failed(self, error: Exception) -> None:
        """Blocks could not be written."""
        _log.log(self._level, "blocks cannot be written to %s: %s", self._place, error)
        self._level = logging.DEBUG

    def succeeded(self) -> None:
        """Blocks were written: the next failure is logged again."""
        self._level = logging.WARNING


class BlockDatabase:
    """Reads and writes records; its calls block, and one thread at a time makes them.

    The file never grows beyond its capacity. It survives a crash of the process or of the machine
    at any moment: the last writes may then be missing. A file that is not a database is replaced by
    an empty one. A larger file, of an earlier capacity, shrinks as records are deleted, see
    :meth:`shrink`.

    Attributes:
        is_too_large: the file is larger than its capacity.
        batch_bytes: of records that one call should write at most, so that the journal stays small.
    """

    def __init__(self, path: Path, capacity_bytes: int) -> None:
        """
        Args:
            path: of the file.
            capacity_bytes: of records, see :func:`record_bytes`; the file grows to 1/256 more, and
                a journal beside it to twice :attr:`batch_bytes` and one record: see
                :func:`room_bytes`.

        Raises:
            KVError: another process has it open, or the file cannot be created.
        """
        self._path = path
        pages = capacity_bytes // PAGE_BYTES
        self._pages = pages + pages // _PAGES_IN_A_TABLE + _PAGES_OF_ITS_OWN
        self._checkpoint_pages = _checkpoint_pages(pages)
        self.batch_bytes = self._checkpoint_pages * PAGE_BYTES
        self.is_too_large = False
        self._failures = WriteFailures(str(path))
        self._connection = self._opened()

    def records(self) -> list[BlockRecord]:
        """All records in the order of writing, without damaged ones."""
        query = "SELECT id, name, depth, size FROM block INDEXED BY listed"
        try:
            rows = self._connection.execute(query).fetchall()
        except sqlite3.Error:
            self.reset()
            return []
        listed = [record for row in rows if (record := _listed(row)) is not None]
        return sorted(listed, key=lambda record: record.row)

    def read(self, row: int) -> Sealed | None:
        """The block of a record, not verified; ``None``: it cannot be read."""
        try:
            found = self._connection.execute(
                "SELECT root, contents FROM block WHERE id = ?", (row,)
            ).fetchone()
        except (sqlite3.Error, MemoryError, OverflowError):
            return None
        if found is None or not all(isinstance(column, bytes) for column in found):
            return None
        root, contents = found
        return Sealed(np.frombuffer(contents, np.uint8), root)

    def write(self, dropped: Sequence[int], added: Sequence[BlockRecord]) -> bool:
        """Delete and add records, all or none; false: none, for lack of room or because of a fault.

        A database that turns out to be damaged is replaced by an empty one first.
        """
        try:
            try:
                self._write(dropped, added)
            except sqlite3.Error as error:
                if not self._is_damage(error):
                    raise
                self.reset()
                self._write((), added)
        except (sqlite3.Error, KVError) as error:
            self._failures.failed(error)
            return False
        if added:
            self._failures.succeeded()
        return True

    def shrink(self) -> bool:
        """Give some free pages of a file that is too large back to the disk; false: a fault."""
        try:
            excess = _number(self._connection, "page_count") - self._pages
            # The statement makes a step for each page, and ``execute`` only the first one.
            step = min(excess, _SHRINK_PAGES)
            self._connection.executescript(f"PRAGMA incremental_vacuum({step})")
            left = _number(self._connection, "page_count") - self._pages
            self._connection.execute(f"PRAGMA max_page_count = {self._pages}")
            if left <= 0:
                self._connection.execute("PRAGMA wal_checkpoint").fetchall()  # truncates the file
            self.is_too_large = left > 0
        except sqlite3.Error as error:
            _log.warning("%s cannot be made smaller: %s", self._path, error)
            return False
        return left < excess

    def reset(self) -> None:
        """Start again with an empty file.

        Raises:
            KVError: the file cannot be replaced.
        """
        self._connection.close()
        self._connection = self._opened(is_new=True)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _write(self, dropped: Sequence[int], added: Sequence[BlockRecord]) -> None:
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "DELETE FROM block WHERE id = ?", [(row,) for row in dropped]
            )
            self._connection.executemany(
                "INSERT INTO block VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (r.row, r.name.encode(), r.depth, r.size, r.block.root, r.block.contents)
                    for r in added
                    if r.block is not None
                ],
            )

    def _opened(self, *, is_new: bool = False) -> sqlite3.Connection:
        try:
            self._close_to_others()
            if is_new:
                self._delete()
            try:
                connection = self._connected()
            except sqlite3.Error as error:
                if not self._is_damage(error):
                    raise
            else:
                self.is_too_large = _number(connection, "page_count") > self._pages
                if not self.is_too_large or self._can_shrink(connection):
                    return connection
                connection.close()
            self._delete()
            self.is_too_large = False
            return self._connected()
        except (OSError, sqlite3.Error) as error:
            raise KVError(
                f"blocks cannot be kept in {self._path}: {error}. Give each pool of each process a "
                "folder of its own that it can write to"
            ) from error

    def _can_shrink(self, connection: sqlite3.Connection) -> bool:
        can_shrink = _number(connection, "auto_vacuum") == _INCREMENTAL
        _log.warning(
            "%s of %d bytes is larger than its capacity, and %s",
            self._path,
            _number(connection, "page_count") * PAGE_BYTES,
            "shrinks"
            if can_shrink
            else "starts empty, because SQLite cannot make it smaller: an earlier version of innet "
            "or another program made it",
        )
        return can_shrink

    def _connected(self) -> sqlite3.Connection:
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(
            self._path, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            # Some builds of SQLite write zeros over all that is deleted otherwise.
            connection.execute("PRAGMA secure_delete = FAST")
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            connection.execute(f"PRAGMA wal_autocheckpoint = {self._checkpoint_pages}")
            connection.execute(f"PRAGMA journal_size_limit = {self.batch_bytes}")
            for statement in _SCHEMA:
                connection.execute(statement)
            # Take the process's lock, even before the first record.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("COMMIT")
            connection.execute(f"PRAGMA max_page_count = {self._pages}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _close_to_others(self) -> None:
        """Make the files readable by their owner only; SQLite gives new ones the database's mode.

        An existing database is not opened here: closing it would end SQLite's locks.
        """
        for path in self._files():
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(path.lstat().st_mode):
                    raise KVError(
                        f"{path} is not a regular file, so blocks are not kept there. Remove it, "
                        "or name another folder"
                    )
                path.chmod(0o600)

    def _is_damage(self, error: sqlite3.Error) -> bool:
        """Whether the file is damaged, rather than the disk full or another process in the way."""
        # The low byte of a code is its kind.
        kind = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if kind == sqlite3.SQLITE_READONLY:  # the file's header can say so, too
            return os.access(self._path, os.W_OK)
        return kind not in _FAULTS_OF_THE_DISK

    def _delete(self) -> None:
        for path in self._files():
            path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        suffixes = ("", "-wal", "-shm", "-journal")
        return [self._path.with_name(self._path.name + suffix) for suffix in suffixes]


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    (number,) = connection.execute(f"PRAGMA {pragma}").fetchone()
    return int(number)


def _listed(row: tuple[object, ...]) -> BlockRecord | None:
    row_id, name, depth, size = row
    if not isinstance(name, bytes) or not isinstance(row_id, int) or not 0 < row_id < _LAST_ROW:
        return None
    if not isinstance(depth, int) or not isinstance(size, int) or size <= 0:
        return None
    try:
        return BlockRecord(row_id, name.decode(), depth, size)
    except UnicodeDecodeError:
        return None
