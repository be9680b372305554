"""Contents of publications: memory, and files that are read when their segments are requested."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import tempfile
from functools import partial
from pathlib import Path
from typing import Protocol

from innet.errors import TransportError
from innet.ndn.objects.descriptors import OpenDescriptor, in_daemon_thread
from innet.output_files import own_descriptor

_BLOCK_BYTES = 1 << 20


class ContentSource(Protocol):
    """Bytes that can be read from anywhere.

    Attributes:
        size_bytes: how many there are.
    """

    @property
    def size_bytes(self) -> int: ...

    async def read(self, offset: int, size_bytes: int) -> bytes:
        """Read so many bytes, or fewer at the end.

        Raises:
            TransportError: they are not there any more, or have changed.
        """

    def close(self) -> None:
        """Nothing is read any more; may be called again."""


class MemorySource:
    """Bytes in memory."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.size_bytes = len(content)

    async def read(self, offset: int, size_bytes: int) -> bytes:
        return self._content[offset : offset + size_bytes]

    def close(self) -> None:
        return None


class FileSource:
    """An open file, read block by block in threads. A block that has changed is an error.

    Args:
        path: for messages.
        file: open for reading.
        size_bytes: of the content.

    Raises:
        TransportError: it cannot be read. The constructor reads all of it, for its digests.
    """

    def __init__(self, path: Path, file: OpenDescriptor, size_bytes: int) -> None:
        self._path = path
        self._file: OpenDescriptor | None = file
        self.size_bytes = size_bytes
        self._digests = [
            hashlib.sha256(self._block(file, number)).digest()
            for number in range(-(-size_bytes // _BLOCK_BYTES))
        ]
        self._read_ahead: tuple[int, bytes] = (-1, b"")
        self._reading = asyncio.Lock()

    async def read(self, offset: int, size_bytes: int) -> bytes:
        content = b""
        end = min(offset + size_bytes, self.size_bytes)
        while (start := offset + len(content)) < end:
            number = start // _BLOCK_BYTES
            block = await self._verified_block(number)
            content += block[start - number * _BLOCK_BYTES : end - number * _BLOCK_BYTES]
        return content

    async def _verified_block(self, number: int) -> bytes:
        async with self._reading:
            if self._read_ahead[0] != number:
                if self._file is None:
                    raise TransportError(f"{self._path} is not published any more")
                block = await asyncio.to_thread(self._block, self._file, number)
                if hashlib.sha256(block).digest() != self._digests[number]:
                    raise self._changed()
                self._read_ahead = (number, block)
            return self._read_ahead[1]

    def _block(self, file: OpenDescriptor, number: int) -> bytes:
        offset = number * _BLOCK_BYTES
        wanted = min(_BLOCK_BYTES, self.size_bytes - offset)
        try:
            block = os.pread(file.number, wanted, offset)
        except OSError as error:
            raise TransportError(f"cannot read {self._path}: {error.strerror}") from error
        if len(block) != wanted:
            raise self._changed()
        return block

    def _changed(self) -> TransportError:
        return TransportError(
            f"{self._path} changed while it was published; publish it again, as a new version"
        )

    def close(self) -> None:
        self._file = None


async def open_source(content: bytes | Path) -> ContentSource:
    """A source of ``content``, the file's when it is a path.

    A file is read once for the digests of its blocks. What cannot be read again (a pipe, a FIFO, a
    terminal, a file of ``/proc``) is copied into an unnamed file of the folder for temporary files.

    Raises:
        TransportError: the file cannot be read, or has no end.
        TypeError: ``content`` is neither bytes nor a path.
    """
    if not isinstance(content, Path):
        is_whole = isinstance(content, bytes)
        return MemorySource(content if is_whole else memoryview(content).tobytes())
    try:
        return await in_daemon_thread(partial(_open_file_source, content))
    except OSError as error:
        raise TransportError(f"cannot publish {content}: {error.strerror}") from error


def _open_file_source(path: Path) -> FileSource:
    """Waits for a writer, if it is a FIFO."""
    own = own_descriptor(path)
    number = os.dup(own) if own is not None else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    file = OpenDescriptor(number)
    mode = os.fstat(number).st_mode
    if stat.S_ISDIR(mode):
        raise TransportError(f"cannot publish {path}: it is a folder; publish each of its files")
    if stat.S_ISCHR(mode) and not os.isatty(number):
        raise TransportError(
            f"cannot publish {path}: it is a device without an end; publish a file with a part of "
            "its content"
        )
    if not _can_be_read_again(file):
        file = _copy_of(file)
    return FileSource(path, file, os.lseek(file.number, 0, os.SEEK_END))


def _can_be_read_again(file: OpenDescriptor) -> bool:
    status = os.fstat(file.number)
    if not stat.S_ISREG(status.st_mode):
        return stat.S_ISBLK(status.st_mode)
    # Files of /proc and /sys have no size, or a wrong one.
    last = os.pread(file.number, 1, status.st_size - 1) if status.st_size else b"0"
    return bool(last) and not os.pread(file.number, 1, status.st_size)


def _copy_of(file: OpenDescriptor) -> OpenDescriptor:
    with tempfile.TemporaryFile() as copy:
        while content := os.read(file.number, _BLOCK_BYTES):
            copy.write(content)
        copy.flush()
        return OpenDescriptor(os.dup(copy.fileno()))
