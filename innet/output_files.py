"""Output files that a user names: regular files, FIFOs, devices, and descriptors of this process.

Links are followed, except where the kernel's ``fs.protected_symlinks`` would refuse to. Only
regular files are truncated or replaced; bytes are written into whatever else exists.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

_MAX_LINKS: Final = 40  # as Linux
_DESCRIPTORS = re.compile(r"/proc/(\d+)(?:/task/\d+)?/fd")


@dataclass(frozen=True)
class OutputTarget:
    """Where the bytes of an output go.

    Attributes:
        path: of the file, with its links resolved.
        status: of what exists there; ``None`` when nothing does.
        descriptor: of this process, which the path names, as ``/dev/stdout`` does.
    """

    path: Path
    status: os.stat_result | None
    descriptor: int | None = None

    @property
    def is_stream(self) -> bool:
        """Whether bytes are written into what exists, and nothing is truncated or replaced."""
        return self.descriptor is not None or not (
            self.status is None or stat.S_ISREG(self.status.st_mode)
        )

    @property
    def is_fifo(self) -> bool:
        """Whether it is a FIFO that somebody has to read."""
        return self.descriptor is None and (
            self.status is not None and stat.S_ISFIFO(self.status.st_mode)
        )

    def open(self, mode: int = 0o666, *, blocking: bool = True) -> int:
        """A descriptor to write to. A regular file is truncated.

        Args:
            mode: of a new file.
            blocking: wait for a reader of a FIFO; otherwise ``ENXIO`` without one.

        Raises:
            OSError: it cannot be opened, or was replaced since :func:`find_output` returned.
        """
        if self.descriptor is not None:
            return os.dup(self.descriptor)
        flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY | (0 if blocking else os.O_NONBLOCK)
        if not _DESCRIPTORS.fullmatch(str(self.path.parent)):
            flags |= os.O_NOFOLLOW
        if self.status is None:
            return os.open(self.path, flags | os.O_CREAT | os.O_EXCL, mode)
        opened = os.open(self.path, flags)
        try:
            os.set_blocking(opened, True)
            found = os.fstat(opened)
            if not os.path.samestat(found, self.status):
                raise OSError(errno.EBUSY, "it was replaced while it was opened", str(self.path))
            if stat.S_ISREG(found.st_mode):
                os.ftruncate(opened, 0)
        except BaseException:
            os.close(opened)
            raise
        return opened

    def replace_with(self, unfinished: Path) -> None:
        """Rename a complete file to this regular file, which keeps its mode and its owner.

        Raises:
            OSError: it cannot be replaced, or something else is there now.
        """
        now = find_output(self.path)
        if now.is_stream or now.path != self.path:
            raise OSError(errno.EBUSY, "it was replaced while it was written", str(self.path))
        if now.status is not None:
            if os.geteuid() == 0:
                os.chown(unfinished, now.status.st_uid, now.status.st_gid, follow_symlinks=False)
            os.chmod(unfinished, stat.S_IMODE(now.status.st_mode) & 0o777)
        os.replace(unfinished, self.path)


def find_output(path: Path) -> OutputTarget:
    """What ``path`` names: its links are followed, as ``cp`` does.

    Raises:
        OSError: nothing can be written there; its ``strerror`` says why.
    """
    resolved = _resolved(path)
    descriptor = _descriptor_at(resolved)
    if descriptor is not None:
        return OutputTarget(resolved, os.fstat(descriptor), descriptor)
    try:
        status = os.stat(resolved)
    except FileNotFoundError:
        if not resolved.parent.is_dir():
            raise OSError(
                errno.ENOENT, f"there is no folder {resolved.parent}", str(path)
            ) from None
        return OutputTarget(resolved, None)
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, "it is a folder; name a file", str(path))
    if kind == stat.S_IFSOCK:
        raise OSError(errno.ENXIO, "it is a socket; name a file, a FIFO or a device", str(path))
    if kind in (stat.S_IFREG, stat.S_IFIFO) and _is_planted(resolved, status):
        raise _planted(resolved, path)
    if not os.access(resolved, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return OutputTarget(resolved, status)


def open_output(path: Path, mode: int = 0o666) -> BinaryIO:
    """Open ``path`` for an output that grows while it is read. A regular file is truncated.

    Waits for a reader where it is a FIFO.

    Args:
        mode: of a new file.

    Raises:
        OSError: it cannot be opened; its ``strerror`` says why.
    """
    return os.fdopen(find_output(path).open(mode), "wb")


def write_output(path: Path, text: str) -> None:
    """Write a whole text to ``path``, in UTF-8.

    Raises:
        OSError: it cannot be written; its ``strerror`` says why.
    """
    with open_output(path) as file:
        file.write(text.encode())


def replace_output(
    path: Path, chunks: Iterable[str], *, mode: int | None = None, is_durable: bool = False
) -> None:
    """Write a text so that readers of a regular file find what was there before, or all of it.

    Args:
        mode: of the file, exactly; by default that of the file it replaces, or ``0666 & ~umask``.
        is_durable: also after a power cut that follows.

    Raises:
        OSError: it cannot be written; its ``strerror`` says why.
    """
    target = find_output(path)
    if target.is_stream:
        with os.fdopen(target.open(), "wb") as stream:
            stream.writelines(chunk.encode() for chunk in chunks)
        return
    with _unfinished(target.path, 0o666 if mode is None else mode) as (unfinished, file):
        file.writelines(chunk.encode() for chunk in chunks)
        file.flush()
        if is_durable:
            os.fsync(file.fileno())
        if mode is None:
            target.replace_with(unfinished)
        else:
            os.replace(unfinished, target.path)


@contextmanager
def _unfinished(path: Path, mode: int) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file beside ``path``, which is removed after an error."""
    unfinished = path.with_name(f".{secrets.token_hex(6)}.part")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield unfinished, file
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _resolved(path: Path) -> Path:
    """``path`` without links, except those that stand for open files of processes."""
    found, waiting, links = Path("/"), [*reversed(path.absolute().parts[1:])], 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            found = found.parent
            continue
        found /= part
        if _DESCRIPTORS.fullmatch(str(found.parent)) or not found.is_symlink():
            continue
        if _is_planted(found, found.lstat()):
            raise _planted(found, path)
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        led_to = Path(os.readlink(found))
        found = Path("/") if led_to.is_absolute() else found.parent
        waiting += reversed(led_to.parts[led_to.is_absolute() :])
    return found


def _is_planted(path: Path, status: os.stat_result) -> bool:
    """Whether another user may have put it into a sticky folder that all can write to."""
    folder = path.parent.stat()
    is_shared = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
    return bool(is_shared) and status.st_uid not in (os.geteuid(), folder.st_uid)


def _planted(planted: Path, path: Path) -> OSError:
    return PermissionError(
        errno.EACCES,
        f"another user put {planted.name} into {planted.parent}, where all can; name a file in a "
        "folder of your own",
        str(path),
    )


def own_descriptor(path: Path) -> int | None:
    """The descriptor of this process that ``path`` names, as ``/dev/stdin`` does.

    Raises:
        OSError: its links cannot be followed.
    """
    return _descriptor_at(_resolved(path))


def _descriptor_at(path: Path) -> int | None:
    match = _DESCRIPTORS.fullmatch(str(path.parent))
    if match is None or int(match[1]) != os.getpid() or not path.name.isdigit():
        return None
    return int(path.name)
