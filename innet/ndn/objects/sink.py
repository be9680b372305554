"""Destinations of fetched objects: memory, or a file."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from functools import partial
from pathlib import Path
from typing import Protocol

from innet.errors import TransportError
from innet.ndn.objects.descriptors import OpenDescriptor, in_daemon_thread
from innet.output_files import OutputTarget, find_output

_WRITE_BYTES = 4 << 20
_READER_PERIOD_S = 0.05
"""How often a FIFO is tried until a program reads it."""
PART_SUFFIX = ".part"


class Sink(Protocol):
    """Takes an object's bytes from its beginning on.

    Attributes:
        size_bytes: how many it has taken.
    """

    @property
    def size_bytes(self) -> int: ...

    async def write(self, contents: list[bytes]) -> None:
        """Take what follows."""

    async def finish(self) -> bytes | None:
        """The object is complete; its bytes, when they are in memory."""


class MemorySink:
    """Keeps the object in memory."""

    def __init__(self) -> None:
        self._content = bytearray()  # not the segments: tiny ones would take many times their size

    @property
    def size_bytes(self) -> int:
        return len(self._content)

    async def write(self, contents: list[bytes]) -> None:
        self._content += b"".join(contents)

    async def finish(self) -> bytes | None:
        return bytes(self._content)


class FileSink:
    """Writes to ``<path>.part``, which becomes ``path`` when the object is complete.

    The part is always a new file: a file of this user that an earlier fetch left there is removed
    first; a link, or another user's file, is an error and stays untouched.
    """

    def __init__(self, target: OutputTarget) -> None:
        self._target = target
        self._part = target.path.with_name(target.path.name + PART_SUFFIX)
        self._created: tuple[int, int, int] | None = None
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._written_bytes = 0
        self.size_bytes = 0

    async def write(self, contents: list[bytes]) -> None:
        size_bytes = sum(map(len, contents))
        self._waiting += contents
        self._waiting_bytes += size_bytes
        self.size_bytes += size_bytes
        if self._waiting_bytes >= _WRITE_BYTES:
            await self._in_thread(last=False)

    async def finish(self) -> bytes | None:
        await self._in_thread(last=True)
        return None

    async def _in_thread(self, *, last: bool) -> None:
        try:
            await asyncio.to_thread(self._write_out, self._waiting, last)
        except OSError as error:
            raise _not_written(self._part, error) from error
        self._written_bytes += self._waiting_bytes
        self._waiting, self._waiting_bytes = [], 0

    def _write_out(self, contents: list[bytes], last: bool) -> None:
        # Opened each time: a fetch that is given up leaves no open file behind. What an attempt
        # that failed has written in part is written again.
        with os.fdopen(self._open_part(), "r+b") as file:
            file.seek(self._written_bytes)
            file.truncate()
            file.writelines(contents)
        if last:
            self._target.replace_with(self._part)

    def _open_part(self) -> int:
        if self._created is None:
            self._remove_stale_part()
            created = os.open(self._part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
            self._created = _identity(created)
            return created
        opened = os.open(self._part, os.O_RDWR | os.O_NOFOLLOW)
        if _identity(opened) != self._created:
            os.close(opened)
            raise TransportError(
                f"{self._part} was replaced while it was written; choose a folder that no other "
                "user and no other fetch writes to"
            )
        return opened

    def _remove_stale_part(self) -> None:
        try:
            found = self._part.lstat()
        except FileNotFoundError:
            return
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise TransportError(
                f"{self._part} exists and is not a file that an earlier fetch of this user left; "
                "remove it, or choose another file"
            )
        self._part.unlink()


class StreamSink:
    """Writes into a FIFO, a device, or a descriptor of this process, as segments arrive.

    Writes run in threads of their own: one whose reader is slow must not delay the process's end.
    """

    def __init__(self, target: OutputTarget) -> None:
        self._target = target
        self._file: OpenDescriptor | None = None
        self.size_bytes = 0

    async def open(self) -> None:
        """Open it; wait until a program reads a FIFO.

        Raises:
            TransportError: it cannot be opened.
        """
        while self._file is None:
            try:
                self._file = OpenDescriptor(self._target.open(blocking=not self._target.is_fifo))
            except OSError as error:
                if error.errno != errno.ENXIO or not self._target.is_fifo:
                    raise _not_written(self._target.path, error) from error
                await asyncio.sleep(_READER_PERIOD_S)

    async def write(self, contents: list[bytes]) -> None:
        await self.open()
        assert self._file is not None
        try:
            await in_daemon_thread(partial(_write_all, self._file, contents))
        except OSError as error:
            raise _not_written(self._target.path, error) from error
        self.size_bytes += sum(map(len, contents))

    async def finish(self) -> bytes | None:
        await self.open()  # an empty object, too, ends the wait of a FIFO's reader
        self._file = None
        return None


async def open_sink(into: Path | None) -> Sink:
    """The sink for ``into``, or for memory. Waits until a program reads a FIFO.

    Raises:
        TransportError: nothing can be written there.
    """
    if into is None:
        return MemorySink()
    try:
        target = find_output(into)
    except OSError as error:
        raise _not_written(into, error) from error
    if not target.is_stream:
        return FileSink(target)
    stream = StreamSink(target)
    await stream.open()
    return stream


def _write_all(file: OpenDescriptor, contents: list[bytes]) -> None:
    for content in contents:
        left = memoryview(content)
        while left:
            left = left[os.write(file.number, left) :]


def _not_written(path: Path, error: OSError) -> TransportError:
    return TransportError(
        f"cannot write {path}: {error.strerror}; choose another file, or make room"
    )


def _identity(fd: int) -> tuple[int, int, int]:
    found = os.fstat(fd)
    # The owner as well: a deleted file's number may now belong to another user's file.
    return found.st_dev, found.st_ino, found.st_uid
