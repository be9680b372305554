"""Blocks in a SQLite database: one file, one process."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from innet.errors import KVError
from innet.kv.pool.disk_space import FAULTS, DiskSpace
from innet.kv.pool.network import Sealed
from innet.private_files import make_private_folder

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
RETRY_S = 10.0
"""Between attempts to open a file that could not be opened, or only be read."""
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
    """Logs the first of several failed writes in a row.

    Attributes:
        fault: of the last write; empty: it succeeded.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self.fault = ""

    def failed(self, cause: object) -> None:
        """Blocks could not be written."""
        level = logging.DEBUG if self.fault else logging.WARNING
        self.fault = f"blocks cannot be written to {self._place}: {cause}"
        _log.log(level, "%s", self.fault)

    def succeeded(self) -> None:
        """Blocks were written: the next failure is logged again."""
        self.fault = ""


class BlockDatabase:
    """Reads and writes records; its calls block, and one thread at a time makes them.

    The file never grows beyond its capacity. It survives a crash of the process or of the machine
    at any moment: the last writes may then be missing. A file that is not a database is replaced by
    an empty one. A larger file, of an earlier capacity, shrinks as records are deleted, see
    :meth:`shrink`.

    Where the disk is full, read-only or broken, nothing is written. What is there is read as far as
    possible, and :meth:`reopen` tries again.

    Attributes:
        is_too_large: the file is larger than its capacity.
        is_writable: whether records can be written; else :attr:`fault` says why not.
        batch_bytes: of records that one call should write at most, so that the journal stays small.
    """

    def __init__(self, path: Path, capacity_bytes: int) -> None:
        """
        Args:
            path: of the file; its folder is made if there is none.
            capacity_bytes: of records, see :func:`record_bytes`; the file grows to 1/256 more, and
                a journal beside it to twice :attr:`batch_bytes` and one record: see
                :func:`room_bytes`.

        Raises:
            KVError: another process has it open, or it cannot be a file of this user.
        """
        self._path = path
        pages = capacity_bytes // PAGE_BYTES
        self._pages = pages + pages // _PAGES_IN_A_TABLE + _PAGES_OF_ITS_OWN
        self._checkpoint_pages = _checkpoint_pages(pages)
        self.batch_bytes = self._checkpoint_pages * PAGE_BYTES
        self.is_too_large = False
        self.is_writable = False
        self._failures = WriteFailures(str(path))
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._retry_s = 0.0
        self._open()

    @property
    def fault(self) -> str:
        """Why records cannot be written now; empty: they can."""
        return self._failures.fault

    @property
    def may_reopen(self) -> bool:
        """Whether it is time to try :meth:`reopen`."""
        return not self.is_writable and time.monotonic() >= self._retry_s

    def reopen(self) -> list[BlockRecord] | None:
        """The records, if they can be written now; ``None``: it does not work yet."""
        with suppress(KVError):
            self._open()
        return self.records() if self.is_writable else None

    def records(self) -> list[BlockRecord]:
        """All records in the order of writing, without damaged ones."""
        query = "SELECT id, name, depth, size FROM block INDEXED BY listed"
        if self._connection is None:
            return []
        try:
            rows = self._connection.execute(query).fetchall()
        except sqlite3.Error as error:
            if self.is_writable and self._is_damage(error):
                self.reset()
            return []
        listed = [record for row in rows if (record := _listed(row)) is not None]
        return sorted(listed, key=lambda record: record.row)

    def read(self, row: int) -> Sealed | None:
        """The block of a record, not verified; ``None``: it cannot be read."""
        if self._connection is None:
            return None
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

        A database that turns out to be damaged, or whose file was deleted, is replaced by an empty
        one first.
        """
        try:
            if self._is_gone():
                _log.warning("%s was deleted, with its blocks: a new one is made", self._path)
                self._open()
            if not self.is_writable:
                return False
            try:
                self._write(dropped, added)
            except sqlite3.Error as error:
                if not self._is_damage(error):
                    raise
                self.reset()
                self._write((), added)
        except (OSError, sqlite3.Error) as error:
            self._failures.failed(self._cause(error))
            return False
        except KVError as error:
            self._failures.failed(error)
            return False
        if added:
            self._failures.succeeded()
        return True

    def shrink(self) -> bool:
        """Give some free pages of a file that is too large back to the disk; false: a fault."""
        if self._connection is None:
            return False
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
        self._open(is_new=True)
        if not self.is_writable:
            raise KVError(self.fault)

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self.is_writable = False

    def _write(self, dropped: Sequence[int], added: Sequence[BlockRecord]) -> None:
        assert self._connection is not None
        with self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("DELETE FROM block WHERE id = ?", [(row,) for row in dropped])
            connection.executemany(
                "INSERT INTO block VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (r.row, r.name.encode(), r.depth, r.size, r.block.root, r.block.contents)
                    for r in added
                    if r.block is not None
                ],
            )

    def _open(self, *, is_new: bool = False) -> None:
        """Open the file to write, or to read if the disk does not allow more.

        Raises:
            KVError: see the constructor.
        """
        self.close()
        self._retry_s = time.monotonic() + RETRY_S
        try:
            self._connection = self._opened(is_new)
        except (OSError, sqlite3.Error) as error:
            if not self._is_fault(error):
                raise KVError(self._refusal(error)) from error
            self._connection = self._opened_to_read()
            self._failures.failed(
                f"{self._cause(error)}. This member keeps blocks in memory"
                f"{'' if self._connection is None else ', reads those that are on the disk'}, and "
                f"tries again every {RETRY_S:g} s. Free space, or name another folder"
            )
            return
        self.is_writable = True
        self._inode = self._path.stat().st_ino
        self._failures.succeeded()
        space, needed = DiskSpace.of(self._path), self._needed_bytes()
        if space is not None and space.free_bytes < needed:
            _log.warning(
                "blocks in %s: %s. When it is full, no more are kept. Free space, or give the "
                "disk a smaller size", self._path, space.described(needed),
            )  # fmt: skip

    def _opened(self, is_new: bool) -> sqlite3.Connection:
        make_private_folder(self._path.parent)
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

    def _opened_to_read(self) -> sqlite3.Connection | None:
        """The file without its journal, of which nothing is written; ``None``: it is no database.

        A page that the journal has newer reads as damaged at worst, because blocks are verified.
        """
        uri = f"{self._path.absolute().as_uri()}?mode=ro&immutable=1"
        try:
            connection = sqlite3.connect(
                uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error:
            return None
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            connection.execute("SELECT id FROM block LIMIT 1").fetchall()
        except sqlite3.Error:
            connection.close()
            return None
        return connection

    def _is_fault(self, error: OSError | sqlite3.Error) -> bool:
        """Whether the disk is at fault, which may pass, rather than the choice of the folder."""
        if isinstance(error, OSError):
            return error.errno in FAULTS and (error.errno != errno.EROFS or self._path.exists())
        kind = _kind(error)
        if kind in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM):
            return True
        space = DiskSpace.of(self._path)
        is_short = space is not None and (space.is_read_only or not space.has_free_files)
        return is_short and kind in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)

    def _refusal(self, error: OSError | sqlite3.Error) -> str:
        if isinstance(error, OSError):
            return (
                f"blocks cannot be kept in {self._path}: {error.strerror or error}. Name a folder "
                "that can be created, or one of this user"
            )
        is_open = _kind(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        return (
            f"blocks cannot be kept in {self._path}: "
            f"{'another process has it open' if is_open else error}. Give each pool of each "
            "process a folder of its own that it can write to"
        )

    def _cause(self, error: Exception) -> str:
        """The error, and the state of the disk."""
        text = error.strerror if isinstance(error, OSError) else None
        space = DiskSpace.of(self._path)
        state = "" if space is None else f"; {space.described(self._needed_bytes())}"
        return f"{text or error}{state}"

    def _needed_bytes(self) -> int:
        """What the files may take in addition to what they take."""
        taken = 0
        for path in self._files():
            with suppress(OSError):
                taken += path.stat().st_size
        return self._pages * PAGE_BYTES + 2 * self.batch_bytes - taken

    def _is_gone(self) -> bool:
        """Whether the file was deleted, or replaced by another one."""
        if not self.is_writable:
            return False
        try:
            return self._path.stat().st_ino != self._inode
        except FileNotFoundError:
            return True

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
            # First, so that the journal's index is in memory: a full disk has no room for it.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            if (
                _number(connection, "auto_vacuum") != _INCREMENTAL
            ):  # this writes, also what is there
                connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
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
        kind = _kind(error)
        if kind == sqlite3.SQLITE_READONLY:  # the file's header can say so, too
            return os.access(self._path, os.W_OK)
        return kind not in _FAULTS_OF_THE_DISK

    def _delete(self) -> None:
        for path in self._files():
            path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        suffixes = ("", "-wal", "-shm", "-journal")
        return [self._path.with_name(self._path.name + suffix) for suffix in suffixes]


def _kind(error: sqlite3.Error) -> int:
    """The low byte of an error's code."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)) & 0xFF


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
