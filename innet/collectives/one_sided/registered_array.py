"""An array that other ranks read and write, with its versions."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from innet.collectives.arrays import Array, byte_view
from innet.collectives.one_sided.requests import Combine, Rows
from innet.collectives.transfers import Transfers
from innet.errors import MismatchError, ReductionOverflow

Reader = tuple[int, int]
"""A rank, and the number of its request."""


@dataclass
class _PublishedVersion:
    version: int
    slot: int
    leases: dict[Reader, float] = field(default_factory=dict)
    """When the lease of each reader expires, in seconds of the monotonic clock."""


class RegisteredArray:
    """An array of this rank under a name; what :meth:`Communicator.register` returns.

    Every put, and every :meth:`writing` block, makes a new version. The memory is the caller's:
    touch it inside :meth:`reading` or :meth:`writing`, which keep the puts of others out. Do not
    wait for a get or a put of the same array inside: it would wait for the end of the block.

    Attributes:
        name: as registered.
    """

    def __init__(
        self,
        name: str,
        path: str,
        memory: Array,
        transfers: Transfers,
        on_written: Callable[[], None],
    ) -> None:
        """``path`` is the name as components of a packet's name."""
        self.name = name
        self._path = path
        self._memory = memory
        self._transfers = transfers
        self._on_written = on_written
        self._lock = threading.RLock()
        self._version = 0
        self._published: list[_PublishedVersion] = []

    @property
    def version(self) -> int:
        """How often the array was written; 0 as it was registered."""
        return self._version

    @property
    def memory(self) -> Array:
        """The array itself."""
        return self._memory

    @contextmanager
    def reading(self) -> Iterator[Array]:
        """The array, protected from writes inside the block."""
        with self._lock:
            yield self._memory

    @contextmanager
    def writing(self) -> Iterator[Array]:
        """The array, to be changed; other ranks see a new version once the block ends."""
        with self._lock:
            try:
                yield self._memory
            finally:  # a write that an error interrupted is a version of its own, too
                self._version += 1
        self._on_written()

    def require_fit(self, dtype: str, shape: tuple[int, ...], rows: Rows | None) -> None:
        """Check that data of this type and shape fits the array, or these rows of it.

        Raises:
            MismatchError: it does not fit.
        """
        has_such_rows = rows is None or self._memory.ndim > 0
        target = self._part(rows) if has_such_rows else None
        if target is None or (target.dtype.name, target.shape) != (dtype, shape):
            into = "" if rows is None else f"rows {rows[0]} to {rows[1]} of "
            raise MismatchError(
                f"a put of {dtype}, shape {shape}, into {into}{self.name!r}, which is of "
                f"{self._memory.dtype}, shape {self._memory.shape}"
            )

    def write(self, incoming: Array, rows: Rows | None, combine: Combine) -> int:
        """Write data that fits the array or these rows; the version that this makes.

        Raises:
            ReductionOverflow: an integer sum leaves its type. The array is as it was.
        """
        with self._lock:
            target = self._part(rows)
            if combine == "sum":
                _add(target, incoming, self.name)
            else:
                target[...] = incoming
            self._version += 1
            version = self._version
        self._on_written()
        return version

    def _part(self, rows: Rows | None) -> Array:
        return self._memory if rows is None else self._memory[slice(*rows)]

    def lease(self, reader: Reader, until_s: float, behind: int) -> tuple[int, int]:
        """Version and slot of a snapshot that stays at least until ``until_s``, or a release.

        It is the latest version; an older one that is published already does when it is at most
        ``behind`` versions older.
        """
        with self._lock:
            newest = self._published[-1] if self._published else None
            if newest is None or newest.version < self._version - behind:
                newest = self._publish()
            newest.leases[reader] = until_s
            return newest.version, newest.slot

    def release(self, reader: Reader) -> None:
        """``reader`` does not need its snapshot any more."""
        with self._lock:
            for published in self._published:
                published.leases.pop(reader, None)
            self._retire_unused()

    def expire(self, now_s: float) -> float:
        """Drop the snapshots whose leases have expired; when the next lease expires."""
        with self._lock:
            for published in self._published:
                gone = [reader for reader, until_s in published.leases.items() if until_s <= now_s]
                for reader in gone:
                    del published.leases[reader]
            self._retire_unused()
            due = (
                until_s for published in self._published for until_s in published.leases.values()
            )
            return min(due, default=math.inf)

    def _publish(self) -> _PublishedVersion:
        taken = {published.slot for published in self._published}
        slot = next(number for number in range(len(taken) + 1) if number not in taken)
        published = _PublishedVersion(self._version, slot)
        what = f"version {self._version} of {self.name!r}"
        self._transfers.publish(
            self._kind(slot), self._version, byte_view(np.ascontiguousarray(self._memory)), what
        )
        self._published.append(published)
        self._retire_unused()
        return published

    def _retire_unused(self) -> None:
        """Retire all versions without readers but the newest, which the next get may need."""
        for published in self._published[:-1]:
            if not published.leases:
                self._transfers.retire(self._kind(published.slot), published.version)
                self._published.remove(published)

    def _kind(self, slot: int) -> str:
        return snapshot_kind(slot, self._path)


def snapshot_kind(slot: int, path: str) -> str:
    """Where snapshots are published, before their version.

    Versions of one slot ascend, and one is dropped before the next; so a slow reader of one version
    does not keep the versions after it.
    """
    return f"/snapshot/{slot}/{path}"


def _add(target: Array, incoming: Array, name: str) -> None:
    total = target + incoming
    if target.dtype.kind in "iu":
        wrapped = (
            total < target
            if target.dtype.kind == "u"
            else ((target ^ total) & (incoming ^ total)) < 0
        )
        if np.any(wrapped):
            raise ReductionOverflow(
                f"the sum of a put and {name!r} leaves the range of {target.dtype}; use a wider "
                "type"
            )
    target[...] = total
