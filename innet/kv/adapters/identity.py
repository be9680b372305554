"""Identity of an engine's blocks: digests of what they depend on, and hashes of its keys.

A path says nothing about the files behind it. So a local model is identified by its files: their
names, sizes and contents. Two folders with the same files share blocks, and a folder whose weights
were replaced has different blocks from before.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

from innet.errors import KVError
from innet.kv.model import canonical_json, digest_of
from innet.private_files import cache_folder

IDENTITY_VERSION: Final = 1
"""Version of the hashed document and of the bytes in blocks."""


def engine_digest(engine: str, facts: Mapping[str, Any]) -> str:
    """The digest that stands for a model in the names of an engine's blocks.

    It is the SHA-256 of a JSON document in ASCII, without white space and with sorted keys: an
    object of ``engine``, ``facts`` and ``version``.

    Args:
        engine: whose blocks they are; another engine's blocks have other bytes.
        facts: JSON values of everything but the key that a block's bytes depend on.

    Raises:
        KVError: JSON cannot express them.

    >>> engine_digest("vllm", {"model": "a"}) == engine_digest("vllm", {"model": "b"})
    False
    """
    document = {"engine": engine, "facts": facts, "version": IDENTITY_VERSION}
    text = canonical_json(document, f"the identity of {engine}'s blocks")
    return hashlib.sha256(text).hexdigest()


def key_hash(*parts: str | bytes) -> bytes:
    """The hash of an engine's key; see :func:`innet.kv.model.digest_of`."""
    return digest_of(parts)


_IRRELEVANT: Final = re.compile(
    r"\..*|.*\.(md|txt|pdf|png|jpe?g|gif|svg|jinja)|(licen[sc]e|notice|use_policy)(\..*)?|"
    r"tokenizer(_config)?\.(json|model)|vocab\.json|added_tokens\.json|special_tokens_map\.json|"
    r"generation_config\.json|chat_template\.json",
    re.IGNORECASE,
)
"""Files that affect no key and no value of given token ids. All others count: a file too many
prevents sharing, a file too few would give wrong blocks."""
_WITHOUT_WEIGHTS: Final = (".json", ".py", ".yaml", ".yml")
_PATH_BEGINNINGS: Final = ("/", "./", "../", "~")
_MOST_THREADS: Final = 8
_SETTLED_NS: Final = 2_000_000_000
"""A file that changed this recently can change again within one step of its time stamp."""
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

_log = logging.getLogger(__name__)


def model_facts(model: str, weights: str) -> dict[str, str]:
    """The identity of a model for :func:`engine_digest`.

    Args:
        model: a local path, or a name at a hub, as the engine was started with it.
        weights: identity of the weights that the user vouches for; empty: hash a local path's
            files, and trust a hub's name.

    Raises:
        KVError: the path does not exist, cannot be read or holds no weights.
    """
    if weights:
        return {"model": model, "weights": weights}
    path = Path(model)
    if os.path.exists(path):
        return {"model": "", "weights": fingerprint(path, FileDigests(default_cache_folder()))}
    if model.startswith(_PATH_BEGINNINGS) or model in (".", ".."):
        raise KVError(
            f"the model {model} cannot be read from {Path.cwd()}, so its weights cannot be "
            "identified: give its absolute path, or the option weights"
        )
    return {"model": model, "weights": ""}


def fingerprint(path: Path, digests: FileDigests) -> str:
    """The identity of the model in a folder or a file: ``files:`` and 64 hexadecimal digits.

    It is the SHA-256 of each file's name in the folder, size and SHA-256, in the order of the
    names.

    Raises:
        KVError: a file cannot be read or changes meanwhile, or no file has weights.
    """
    try:
        files = sorted(files_of(path))
        if all(file.suffix.lower() in _WITHOUT_WEIGHTS for _, file in files):
            raise KVError(
                f"{path} holds no weights, so the model cannot be identified: give the option "
                "weights, such as 'name@revision'"
            )
        _log.info("hashing the weights in %s (%d files) for the names of blocks", path, len(files))
        with ThreadPoolExecutor(min(_MOST_THREADS, len(files))) as threads:
            hashed = list(threads.map(digests.of, (file for _, file in files)))
    except OSError as error:
        raise KVError(
            f"the weights in {path} cannot be read: {error}. Give the engine's user the right to "
            "read them, or give the option weights"
        ) from error
    parts = [
        part
        for (name, _), (size, digest) in zip(files, hashed, strict=True)
        for part in (name, str(size), digest)
    ]
    return f"files:{key_hash(*parts).hex()}"


def default_cache_folder() -> Path | None:
    """The folder of digests: ``innet/weights`` in the user's cache; ``None`` without a home."""
    folder = cache_folder()
    return None if folder is None else folder / "weights"


class FileDigests:
    """SHA-256 of files, cached so that an engine that restarts does not hash them again.

    A digest is valid while the file's device, inode, size, and times of modification and of status
    change are the same.
    """

    def __init__(self, cache_folder: Path | None, now_ns: Callable[[], int] = time.time_ns) -> None:
        """
        Args:
            cache_folder: of the digests; ``None``: they are not cached.
            now_ns: the time of day.
        """
        self._folder = cache_folder
        self._now_ns = now_ns

    def of(self, path: Path) -> tuple[int, str]:
        """A file's size and SHA-256.

        Raises:
            OSError: it cannot be read.
            KVError: it changes meanwhile.
        """
        with path.open("rb") as file:
            began_ns = self._now_ns()
            before = os.fstat(file.fileno())
            if (kept := self._kept(before)) is not None:
                return before.st_size, kept
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            after = os.fstat(file.fileno())
        if _stamp(before) != _stamp(after):
            raise KVError(f"{path} changes while it is read: start the engine when it is complete")
        if abs(began_ns - before.st_ctime_ns) >= _SETTLED_NS:
            self._keep(before, digest)
        return before.st_size, digest

    def _kept(self, status: os.stat_result) -> str | None:
        if self._folder is None:
            return None
        try:
            kept = json.loads(self._entry(self._folder, status).read_text())
            digest = kept["sha256"] if kept["stamp"] == _stamp(status) else ""
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return digest if _DIGEST.fullmatch(str(digest)) else None

    def _keep(self, status: os.stat_result, digest: str) -> None:
        """Cache a digest; if that fails, the digest is computed again next time."""
        if self._folder is None:
            return
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with NamedTemporaryFile("w", dir=self._folder, delete=False) as file:
                json.dump({"stamp": _stamp(status), "sha256": digest}, file)
            os.replace(file.name, self._entry(self._folder, status))

    @staticmethod
    def _entry(folder: Path, status: os.stat_result) -> Path:
        return folder / f"{status.st_dev:x}-{status.st_ino:x}"


def _stamp(status: os.stat_result) -> list[int]:
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def files_of(path: Path) -> Iterator[tuple[str, Path]]:
    """The files that identify a model, with their names in its folder."""
    if path.is_file():
        yield path.name, path
        return
    seen: set[tuple[int, int]] = set()
    for folder, folders, names in os.walk(path, followlinks=True, onerror=_raise):
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in seen:  # a link to a folder above
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[:] = [name for name in sorted(folders) if not name.startswith(".")]
        for name in names:
            file = Path(folder, name)
            if not _IRRELEVANT.fullmatch(name):
                yield file.relative_to(path).as_posix(), file


def _raise(error: OSError) -> None:
    raise error
