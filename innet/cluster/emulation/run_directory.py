"""The directory of a run while the run is up: kept from cleaners, and watched.

Programs that clean up temporary files remove what nobody has used for days. systemd-tmpfiles skips
a directory on which somebody holds a BSD lock (`Using /tmp/ and /var/tmp/ safely
<https://systemd.io/TEMPORARY_DIRECTORIES/>`_); others, such as tmpreaper, go by the times of files.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable, Collection
from pathlib import Path

_CHECK_INTERVAL_S = 1.0
_REFRESH_INTERVAL_S = 3600.0


class RunDirectory:
    """Holds a run's directory: locks it, and calls back once when it or its files are gone.

    Open connections outlive their sockets' files, so running jobs go on.
    """

    def __init__(
        self, path: Path, names: Collection[str], on_lost: Callable[[str], object]
    ) -> None:
        """Nothing is watched before :meth:`watch`.

        Args:
            path: of the directory.
            names: of the files and sockets that have to stay, from when they are first seen.
            on_lost: receives a sentence that names what was removed.
        """
        self._path = path
        self._names = frozenset(names)
        self._seen: set[str] = set()
        self._on_lost = on_lost
        self._descriptors = [_locked(path.parent), _locked(path)]
        self._watching: asyncio.Task[None] | None = None

    @property
    def is_ours(self) -> bool:
        """Whether the directory at the path is the one that was opened, and no other."""
        with contextlib.suppress(OSError):
            return os.path.samestat(os.fstat(self._descriptors[1]), os.lstat(self._path))
        return False

    def watch(self) -> None:
        """Begin to watch, inside the running event loop."""
        self._watching = asyncio.ensure_future(self._watch())

    async def close(self) -> None:
        """Stop watching, and give the locks back."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        while self._descriptors:
            os.close(self._descriptors.pop())

    async def _watch(self) -> None:
        until_refresh_s = 0.0
        while not (why := self._loss()):
            if until_refresh_s <= 0:
                self._refresh()
                until_refresh_s = _REFRESH_INTERVAL_S
            await asyncio.sleep(_CHECK_INTERVAL_S)
            until_refresh_s -= _CHECK_INTERVAL_S
        self._on_lost(why)

    def _loss(self) -> str:
        """A sentence that names what was removed; empty: nothing was."""
        if not self.is_ours:
            return f"the directory of this run, {self._path}, was removed, moved or replaced"
        present = set(os.listdir(self._descriptors[1]))
        gone = sorted(self._seen - present)
        self._seen |= self._names & present
        return f"{', '.join(gone)} of this run were removed from {self._path}" if gone else ""

    def _refresh(self) -> None:
        """Let all files look used."""
        for path in (self._path, *self._path.iterdir()):
            with contextlib.suppress(OSError):
                os.utime(path, follow_symlinks=False)


def _locked(directory: Path) -> int:
    """A descriptor of a directory that holds a shared lock on it, as other launchers may."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # a file system without locks, or a cleaner at work
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return descriptor
