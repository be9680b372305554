"""Files and folders that only their owner can read."""

from __future__ import annotations

import errno
import logging
import os
import stat
from pathlib import Path
from typing import Final

from innet.errors import SecurityError
from innet.output_files import replace_output

_MAX_BYTES: Final = 1 << 16

_log = logging.getLogger(__name__)


def write_private(path: Path, text: str, *, is_durable: bool = False) -> None:
    """Write ``text``, and let nobody but the owner read the file.

    Readers find what was there before, or all of ``text``.

    Args:
        path: of the file.
        text: to write.
        is_durable: also after a power cut that follows.

    Raises:
        OSError: it cannot be written.
    """
    replace_output(path, [text], mode=0o600, is_durable=is_durable)


def make_private_folder(folder: Path) -> None:
    """Make a folder that nobody but its owner can read or enter, also of one that exists.

    A link on the way is followed if this user or root has made it. A folder of another user stays
    as it is, also for root.

    Raises:
        OSError: it cannot be made, another user has it, or has made a link on the way.
    """
    folder = folder.absolute()
    for part in (*reversed(folder.parents), folder):
        _require_no_foreign_link(part)
    folder = folder.resolve()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Whoever puts something else in its place from now on changes nothing of what is opened here.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        owner = status.st_uid
        if owner != os.geteuid():
            raise PermissionError(
                errno.EPERM,
                f"not permitted, as it belongs to user {owner}, expected user {os.geteuid()}",
                folder,
            )
        if stat.S_IMODE(status.st_mode) != 0o700:  # else it may be on a disk without writes
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def cache_folder() -> Path | None:
    """The folder ``innet`` in the user's cache, made private.

    ``None`` without a home, and if others could choose what is in it: it is not this user's.
    """
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "innet"
        make_private_folder(folder)
    except RuntimeError:
        return None
    except OSError as error:
        _log.warning("nothing is cached in %s: %s", folder, error)
        return None
    return folder


def _require_no_foreign_link(path: Path) -> None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(status.st_mode) and status.st_uid not in (os.geteuid(), 0):
        raise PermissionError(
            errno.EPERM, f"{path} is a link that user {status.st_uid} has made", path
        )


def read_private(path: Path, what: str, remedy: str, max_bytes: int = _MAX_BYTES) -> bytes:
    """What a file holds, without white space at its ends.

    Args:
        path: the file.
        what: it holds, for messages.
        remedy: how to make such a file, for messages.
        max_bytes: a larger file is refused.
    """
    try:
        # Without waiting, should it be a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            require_private(path, os.fstat(descriptor), what)
            content = file.read(max_bytes + 1).strip()
    except OSError as error:
        raise SecurityError(f"cannot read {what} {path}: {error.strerror}. {remedy}") from error
    if len(content) > max_bytes:
        raise SecurityError(f"{path} is larger than {max_bytes} bytes and so not {what}")
    return content


def require_private(path: Path, status: os.stat_result, what: str) -> None:
    """Check that the user of this process, or root, owns a file, and nobody else has rights to it.

    Args:
        path: the file, for messages.
        status: of the file.
        what: it holds, for messages.
    """
    if not stat.S_ISREG(status.st_mode):
        raise SecurityError(f"{path} is not a regular file, so {what} is not read or written there")
    if status.st_uid not in (os.geteuid(), 0):
        raise SecurityError(
            f"{path}, which holds {what}, belongs to user {status.st_uid}, expected user "
            f"{os.geteuid()} or root: its owner may know {what} or change it. Make a new one in "
            "a file of your own"
        )
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SecurityError(
            f"others than its owner have rights to {path}, which holds {what}; take "
            f"them away (chmod 600 {path}), and make a new one if somebody may have read it"
        )
