"""What is published: bytes in memory, or a file that is read as it is asked for."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Protocol

from innet.errors import TransportError

_READ_AHEAD_BYTES = 1 << 20


class Source(Protocol):
    """Bytes that can be read from anywhere.

    Attributes:
        size_bytes: how many there are.
    """

    @property
    def size_bytes(self) -> int: ...

    async def read(self, offset: int, size_bytes: int) -> bytes:
        """That many bytes, or fewer at the end."""

    def close(self) -> None:
        """Nothing is read any more."""


class MemorySource:
    """Bytes that must not change while they are published."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.size_bytes = len(content)

    async def read(self, offset: int, size_bytes: int) -> bytes:
        return self._content[offset : offset + size_bytes]

    def close(self) -> None:
        return None


class FileSource:
    """A file that must not change while it is published. Read ahead, in a thread.

    Raises:
        TransportError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self.size_bytes = os.fstat(self._file).st_size
        except OSError as error:
            raise TransportError(f"cannot publish {path}: {error.strerror}") from error
        self._ahead_at = 0
        self._ahead = b""
        self._reading = asyncio.Lock()

    async def read(self, offset: int, size_bytes: int) -> bytes:
        async with self._reading:
            end = min(offset + size_bytes, self.size_bytes)
            if not (self._ahead_at <= offset and end <= self._ahead_at + len(self._ahead)):
                wanted = max(size_bytes, _READ_AHEAD_BYTES)
                self._ahead = await asyncio.to_thread(os.pread, self._file, wanted, offset)
                self._ahead_at = offset
            start = offset - self._ahead_at
            content = self._ahead[start : start + size_bytes]
        if len(content) != end - offset:
            raise TransportError(
                f"{self._path} became shorter while it was published; publish it again"
            )
        return content

    def close(self) -> None:
        os.close(self._file)


def source_of(content: bytes | Path) -> Source:
    """A source of ``content``, the file's when it is a path.

    Raises:
        TransportError: the file cannot be opened.
    """
    return FileSource(content) if isinstance(content, Path) else MemorySource(bytes(content))
