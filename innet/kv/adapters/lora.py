"""LoRA adapters: which weights an engine computes with, and whether their blocks may be shared."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from innet.errors import KVError
from innet.kv.adapters.identity import FileDigests, files_of, fingerprint, key_hash

_log = logging.getLogger(__name__)

Stamp = tuple[tuple[str, int, int, int, int, int], ...]
"""Name, device, inode, size, and times of modification and of status change of each file."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter with known weights.

    Attributes:
        name: as requests name it.
        path: of its files, as the engine was given it.
        identity: hash of its files' contents, and of the settings with which the engine loads them.
    """

    name: str
    path: str
    identity: str


@dataclass
class _Seen:
    """An adapter's files when they were read last.

    Attributes:
        stamp: of the files.
        identity: ``None``: it is excluded.
    """

    stamp: Stamp
    identity: str | None


class AdapterFiles:
    """Identities of an engine's adapters, by the contents of their files.

    An engine keeps blocks of its own under an adapter's name and path, also when it has loaded
    other weights from there since. So an adapter whose files have changed is excluded until the
    engine restarts, or loads it by another name or path: its blocks may be a mixture.

    Args:
        digests: of files.
        settings: of the engine for all adapters, which change what an adapter computes. JSON
            values.
    """

    def __init__(self, digests: FileDigests, settings: Mapping[str, Any]) -> None:
        self._digests = digests
        self._settings = json.dumps(settings, sort_keys=True)
        self._seen: dict[tuple[str, str], _Seen] = {}

    def adapter(
        self, name: str, path: str, folder: str, settings: Mapping[str, Any]
    ) -> Adapter | None:
        """An adapter; ``None``: its blocks may not be shared, and the log says why, once.

        Args:
            name: as requests name it.
            path: as the engine was given it.
            folder: where its files are.
            settings: of this adapter. JSON values.
        """
        own = json.dumps(settings, sort_keys=True)
        identity = self._identity((name, path), folder, own)
        return None if identity is None else Adapter(name, path, identity)

    def _identity(self, key: tuple[str, str], folder: str, settings: str) -> str | None:
        seen = self._seen.get(key)
        if seen is not None and seen.identity is None:
            return None
        try:
            stamp = stamp_of(folder)
        except OSError as error:
            if seen is not None:  # an engine cannot load other weights from there either
                return seen.identity
            self._exclude(key, f"its files cannot be read from {folder}: {error}")
            return None
        if seen is not None and seen.stamp == stamp:
            return seen.identity
        try:
            files = fingerprint(Path(folder), self._digests)
            if stamp_of(folder) != stamp:
                raise KVError(f"{folder} changes while it is read")
        except (KVError, OSError) as error:
            self._exclude(key, str(error))
            return None
        identity = key_hash(files, self._settings, settings).hex()
        if seen is not None and seen.identity != identity:
            self._exclude(
                key,
                f"{folder} has other weights than when this engine saw it first, and the engine "
                "keeps blocks of its own that the former weights computed. Load the new weights by "
                "another name or from another path, or restart the engine",
            )
            return None
        self._seen[key] = _Seen(stamp, identity)
        return identity

    def _exclude(self, key: tuple[str, str], why: str) -> None:
        name, _ = key
        _log.warning("blocks of the adapter %s are neither loaded nor saved: %s", name, why)
        self._seen[key] = _Seen((), None)


def stamp_of(folder: str) -> Stamp:
    """The state of an adapter's files; reading it takes no longer than naming them.

    Raises:
        OSError: the folder or a file cannot be read.
    """
    stamps = []
    for name, file in sorted(files_of(Path(folder))):
        found = os.stat(file)
        times = (found.st_mtime_ns, found.st_ctime_ns)
        stamps.append((name, found.st_dev, found.st_ino, found.st_size, *times))
    if not stamps:
        raise FileNotFoundError(f"no files in {folder}")
    return tuple(stamps)
