"""What is published: bytes in memory, or a file that is read as it is asked for."""

from __future__ import annotations

import asyncio
import os
import threading
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
        """Nothing is read any more; may be called again."""


class MemorySource:
    """Bytes that must not change while they are published."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.size_bytes = len(content)

    async def read(self, offset: int, size_bytes: int) -> bytes:
        return self._content[offset : offset + size_bytes]

    def close(self) -> None:
        return None


class _OpenFile:
    """A file that threads read until it is closed: its descriptor, which other files may get
    afterwards, ends with the last of them.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._changing = threading.Lock()
        self._users = 1  # who has opened it
        self._closed = False

    def size_bytes(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, size_bytes: int, offset: int) -> bytes | None:
        """``None`` once it is closed."""
        with self._changing:
            if self._closed:
                return None
            self._users += 1
        try:
            return os.pread(self._descriptor, size_bytes, offset)
        finally:
            self._leave()

    def close(self) -> None:
        """Does not wait for a thread that reads."""
        with self._changing:
            if self._closed:
                return
            self._closed = True
        self._leave()

    def _leave(self) -> None:
        with self._changing:
            self._users -= 1
            last = self._users == 0
        if last:
            os.close(self._descriptor)


class FileSource:
    """A file that must not change while it is published. Read ahead, in a thread.

    Raises:
        TransportError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = _OpenFile(path)
            self.size_bytes = self._file.size_bytes()
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
                ahead = await asyncio.to_thread(self._file.read, wanted, offset)
                if ahead is None:
                    raise TransportError(f"{self._path} is not published any more")
                self._ahead, self._ahead_at = ahead, offset
            start = offset - self._ahead_at
            content = self._ahead[start : start + size_bytes]
        if len(content) != end - offset:
            raise TransportError(
                f"{self._path} became shorter while it was published; publish it again"
            )
        return content

    def close(self) -> None:
        self._file.close()


def source_of(content: bytes | Path) -> Source:
    """A source of ``content``, the file's when it is a path.

    Raises:
        TransportError: the file cannot be opened.
    """
    return FileSource(content) if isinstance(content, Path) else MemorySource(bytes(content))
