"""The file system below a folder of blocks: its room, and why it takes no more."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from innet.quantities import rounded_size

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
FAULTS = (*NO_ROOM, errno.EIO, errno.EROFS, errno.ENFILE, errno.EMFILE, errno.ENOMEM, errno.ESTALE)
"""Errors of a file system that worked before, or has no room: it may work again later."""


@dataclass(frozen=True)
class DiskSpace:
    """A file system, as its users see it.

    Attributes:
        folder: that exists there.
        free_bytes: for this user.
        total_bytes: of all.
        has_free_files: whether it can have more files.
        is_read_only: whether nothing can be written to it.
    """

    folder: Path
    free_bytes: int
    total_bytes: int
    has_free_files: bool
    is_read_only: bool

    @classmethod
    def of(cls, path: Path) -> Self | None:
        """That of a file's folder, or of a parent that exists; ``None``: it does not say."""
        for folder in path.parents:
            try:
                found = os.statvfs(folder)
            except FileNotFoundError:
                continue
            except OSError:
                return None
            return cls(
                folder,
                found.f_bavail * found.f_frsize,
                found.f_blocks * found.f_frsize,
                not found.f_files or found.f_favail > 0,
                bool(found.f_flag & os.ST_RDONLY),
            )
        return None

    def described(self, needed_bytes: int) -> str:
        """What it has, and what it lacks.

        Args:
            needed_bytes: that blocks may take in addition to what they take now.
        """
        if self.is_read_only:
            return f"the file system of {self.folder} is read-only"
        if not self.has_free_files:
            return f"the file system of {self.folder} has no free inodes"
        return (
            f"the file system of {self.folder} has {rounded_size(self.free_bytes)} free of "
            f"{rounded_size(self.total_bytes)}, and these blocks may take "
            f"{rounded_size(max(0, needed_bytes))} more"
        )
