"""The tier of blocks on disk or in an object storage, whose calls run on threads."""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol, TypeVar

from innet.kv.eviction import DEFAULT_POLICY, PolicyName
from innet.kv.pool.block_database import BlockDatabase, BlockRecord, record_bytes, room_bytes
from innet.kv.pool.network import Contents, Sealed
from innet.kv.pool.object_storage import BlockRecords, ObjectStorage, is_url
from innet.kv.pool.statistics import TierStatistics
from innet.kv.pool.tiers import BlockTier, Entry, MemoryTier
from innet.kv.pool.waiting import wait_to_end

Result = TypeVar("Result")

FILE_NAME: Final = "blocks.sqlite"
MOST_UNWRITTEN_BYTES: Final = 64 << 20
"""Limit of pending writes; a block beyond it is not kept, unless it is the only one."""
_OBJECTS_AT_ONCE = 8
"""Reads of an object storage, which answers after many milliseconds."""


class DiskWork(Protocol):
    """Runs blocking calls beside the event loop: a disk's one after the other, in their order."""

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of ``work``."""

    def close(self) -> None:
        """End; no calls follow."""


class DiskThread:
    """A :class:`DiskWork` on threads of its own."""

    def __init__(self, threads: int = 1) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="innet-kv-disk")

    async def run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def close(self) -> None:
        self._executor.shutdown(wait=False)


@dataclass(slots=True)
class _OnDisk:
    """A block on disk: the number of its record, the block itself until it is written, and the
    contents that were read last, as long as anybody uses them."""

    row: int
    unwritten: Sealed | None = None
    read: weakref.ref[Contents] | None = None


class DiskTier(BlockTier[_OnDisk]):
    """Blocks in a database on disk, or in an object storage.

    It writes in the background: a block that is not yet written is read from memory. Blocks that
    cannot be written are lost, and counted. A folder to which nothing can be written keeps what it
    has, and takes blocks as soon as it can.

    Attributes:
        on_gone: called with the name of a block that was evicted or lost, not removed.
    """

    def __init__(
        self,
        database: BlockRecords,
        capacity_bytes: int,
        policy: PolicyName,
        work: DiskWork,
    ) -> None:
        """Use :meth:`open`."""
        super().__init__(capacity_bytes, policy)
        self.on_gone: Callable[[str], None] = lambda name: None
        self._database = database
        self._work = work
        self._rows = itertools.count(1)
        self._waiting: dict[str, BlockRecord] = {}
        self._unwritten_bytes = 0
        self._dropped: list[int] = []
        self._writing: asyncio.Task[None] | None = None
        self._is_closing = False

    @classmethod
    async def open(
        cls,
        folder: Path | str,
        capacity_bytes: int,
        policy: PolicyName = DEFAULT_POLICY,
        work: DiskWork | None = None,
    ) -> DiskTier:
        """Open ``folder``. It is created if it does not exist, and other users cannot read it.

        Args:
            folder: used by this pool of this process only; with ``://`` in it, the URL of an
                object storage.
            capacity_bytes: of the blocks there, in whole pages of 16 KiB each; of a folder from 64
                MiB on, of all its files.
            policy: chooses the victims; it starts without earlier uses.
            work: runs blocking calls; by default a thread.

        Raises:
            KVError: the folder cannot be one of this user's, or another process uses it. Where the
                disk is full or broken, the tier keeps no new blocks.
        """
        if not is_url(folder):
            capacity_bytes = room_bytes(capacity_bytes)
        if work is None:
            work = DiskThread(_OBJECTS_AT_ONCE if is_url(folder) else 1)

        def read() -> tuple[BlockRecords, list[BlockRecord]]:
            database = _opened(folder, capacity_bytes)
            return database, database.records()

        try:
            database, listed = await work.run(read)
        except BaseException:
            work.close()
            raise
        tier = cls(database, capacity_bytes, policy, work)
        tier._adopt(listed)
        return tier

    def statistics(self) -> TierStatistics:
        """The tier's figures."""
        return replace(super().statistics(), fault=self._database.fault)

    def depth(self, name: str) -> int:
        """A block's position in its prompt; 0 for one that is not here."""
        entry = self._entries.get(name)
        return 0 if entry is None else entry.depth

    async def get(self, name: str) -> Sealed | None:
        """The block as written, which the caller verifies; ``None``: it is not here."""
        if not self.use(name):
            return None
        kept = self._entries[name].kept
        block = kept.unwritten
        if block is None:
            block = await self._work.run(lambda: self._database.read(kept.row))
        if block is not None:
            kept.read = weakref.ref(block.contents)
        elif self._has(kept.row, name):
            self._failed += 1
            self.remove(name)
            self.on_gone(name)
        return block

    def put(self, name: str, block: Sealed, depth: int) -> None:
        """Keep a block, if there is room for it."""
        if self.use(name):
            return
        if not self._database.is_writable:  # it would displace a block that can be read
            self._failed += 1
            self._write_soon()
            return
        record = BlockRecord.of(next(self._rows), name, depth, block)
        if not self._has_room(record.size):
            return
        if self._unwritten_bytes and self._unwritten_bytes + record.size > MOST_UNWRITTEN_BYTES:
            self._failed += 1
            return
        self._waiting[name] = record
        self._unwritten_bytes += record.size
        entry = Entry(record.size, depth, _OnDisk(record.row, block))
        for victim, evicted in self._insert(name, entry):
            self._drop(victim, evicted.kept)
            if victim != name:
                self.on_gone(victim)
        self._write_soon()

    def remove(self, name: str) -> bool:
        """Drop a block, pinned or not; whether it was here."""
        entry = self._take(name)
        if entry is None:
            return False
        self._drop(name, entry.kept)
        self._write_soon()
        return True

    def remove_damaged(self, name: str, read: Sealed) -> None:
        """Drop a block with other bytes than were put, if it is still the one that was read."""
        entry = self._entries.get(name)
        last_read = None if entry is None else entry.kept.read
        if last_read is not None and last_read() is read.contents:
            self._damaged += self.remove(name)

    async def flush(self) -> None:
        """Wait until all blocks are written, or lost, and the database is not too large."""
        while self._writing is not None:
            await asyncio.shield(self._writing)

    async def close(self, memory: MemoryTier | None = None) -> None:
        """Write what is pending, and close the database, which a cancellation does not prevent.

        Args:
            memory: whose blocks are written as well, as far as there is room.
        """
        closing = asyncio.ensure_future(self._close(memory))
        await wait_to_end(closing)
        closing.result()

    async def _close(self, memory: MemoryTier | None) -> None:
        self._is_closing = True
        try:
            if memory is not None:
                await self._save(memory)
            await self.flush()
        finally:
            await self._work.run(self._database.close)
            self._work.close()

    async def _save(self, memory: MemoryTier) -> None:
        """Keep the blocks of a memory tier, as far as there is room."""
        for name in memory.names():
            entry = memory.entry(name)
            if entry is None or entry.is_copy:
                continue
            size = record_bytes(name, len(entry.kept.root), entry.kept.contents.nbytes)
            if self._unwritten_bytes + size > MOST_UNWRITTEN_BYTES:
                await self.flush()
            self.put(name, entry.kept, entry.depth)

    def _adopt(self, listed: list[BlockRecord]) -> None:
        """Take the blocks of a database that was opened, beside those that are here already."""
        for record in listed:
            entry = self._entries.get(record.name)
            if entry is None and self._has_room(record.size):
                entry = Entry(record.size, record.depth, _OnDisk(record.row))
                for victim, evicted in self._insert(record.name, entry):
                    self._drop(victim, evicted.kept)
            elif entry is None or record.name in self._waiting:
                self._dropped.append(record.row)
            elif entry.kept.row != record.row:
                self._dropped.append(entry.kept.row)
                entry.kept.row = record.row
        self._rows = itertools.count(1 + max((record.row for record in listed), default=0))
        for name, waiting in self._waiting.items():
            row = next(self._rows)
            self._waiting[name] = replace(waiting, row=row)
            self._entries[name].kept.row = row
        self._write_soon()

    def _has(self, row: int, name: str) -> bool:
        entry = self._entries.get(name)
        return entry is not None and entry.kept.row == row

    def _drop(self, name: str, kept: _OnDisk) -> None:
        """Cancel a pending write, or delete the record."""
        waiting = self._waiting.pop(name, None)
        if waiting is None:
            # A record that is being written now is deleted afterwards.
            self._dropped.append(kept.row)
        else:
            self._unwritten_bytes -= waiting.size

    def _write_soon(self) -> None:
        if self._writing is None and self._has_work():
            self._writing = asyncio.ensure_future(self._write())

    def _has_work(self) -> bool:
        database = self._database
        if not database.is_writable:
            return bool(self._waiting) or (database.may_reopen and not self._is_closing)
        shrinks = database.is_too_large and not self._is_closing
        return bool(self._waiting or self._dropped or shrinks)

    async def _write(self) -> None:
        try:
            while self._has_work() and await self._write_step():
                pass
        finally:
            self._writing = None

    async def _write_step(self) -> bool:
        """Write something, or shrink the database if nothing waits; false: it did not work."""
        if self._database.may_reopen:
            listed = await self._work.run(self._database.reopen)
            if listed is not None:
                self._adopt(listed)
        if not self._database.is_writable and not self._waiting:
            return False
        if self._waiting or self._dropped:
            return await self._write_batch()
        return await self._work.run(lambda: self._database.shrink())

    async def _write_batch(self) -> bool:
        """Write some blocks, and delete all dropped ones; false: neither worked."""
        dropped, self._dropped = self._dropped, []
        batch = self._take_batch()
        if await self._work.run(lambda: self._database.write(dropped, batch)):
            for record in batch:
                self._written(record)
            return True
        for record in batch:
            self._lose(record)
        deleted = await self._work.run(lambda: self._database.write(dropped, ()))
        if not deleted:
            self._dropped[:0] = dropped
        return deleted

    def _take_batch(self) -> list[BlockRecord]:
        batch: list[BlockRecord] = []
        size = 0
        while self._waiting:
            name = next(iter(self._waiting))
            if batch and size + self._waiting[name].size > self._database.batch_bytes:
                break
            record = self._waiting.pop(name)
            batch.append(record)
            size += record.size
        return batch

    def _written(self, record: BlockRecord) -> None:
        self._unwritten_bytes -= record.size
        if self._has(record.row, record.name):
            self._entries[record.name].kept.unwritten = None

    def _lose(self, record: BlockRecord) -> None:
        self._failed += 1
        self._unwritten_bytes -= record.size
        if self._has(record.row, record.name):
            self._take(record.name)
            self.on_gone(record.name)


def _opened(folder: Path | str, capacity_bytes: int) -> BlockRecords:
    if is_url(folder):
        return ObjectStorage(str(folder))
    return BlockDatabase(Path(folder) / FILE_NAME, capacity_bytes)
