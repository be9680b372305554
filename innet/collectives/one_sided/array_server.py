"""The owner's side: serves the arrays of one rank in the background of its program.

Other ranks read and write an array; it keeps its versions and their snapshots.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from pydantic import ValidationError

from innet._native import _core
from innet.collectives.arrays import Array, byte_view
from innet.collectives.one_sided.requests import (
    RECORD_BYTES,
    REPLIES_KEPT,
    Combine,
    GetRequest,
    Located,
    PutRequest,
    Refused,
    Release,
    Reply,
    Rows,
    Written,
    decode_request,
    encode,
    refusal,
)
from innet.collectives.transfers import Inbox, PeerFetch, Transfers
from innet.errors import CollectiveError, MismatchError, ReductionOverflow
from innet.worker.background import Alarm, Background

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


REPLY_GRACE_S = 0.5
"""How much longer a requester waits than the owner tries, so that it receives the reason."""


@dataclass(frozen=True)
class _Waiting:
    """A request for an array or a version that does not exist yet."""

    client: int
    number: int
    request: GetRequest | PutRequest
    until_s: float


class ArrayServer:
    """Reads the requests of every rank, each rank's in order, and answers them."""

    def __init__(
        self,
        transfers: Transfers,
        ranks: int,
        rank: int,
        background: Background,
        now_s: Callable[[], float],
    ) -> None:
        """``now_s`` is the clock of ``background``."""
        self._transfers = transfers
        self._background = background
        self._now_s = now_s
        self._alarm = Alarm(background, self._serve_waiting)
        self._ranks = ranks
        self._rank = rank
        self._lock = threading.Lock()
        self._arrays: dict[str, RegisteredArray] = {}
        self._waiting: list[_Waiting] = []
        self._left = ""
        self._inbox = Inbox(transfers, background, now_s, f"/request/{rank}", RECORD_BYTES)
        self._serves = False

    def add(self, array: RegisteredArray) -> None:
        """Serve ``array`` from now on.

        Raises:
            CollectiveError: there is one of that name.
        """
        with self._lock:
            if array.name in self._arrays:
                raise CollectiveError(
                    f"rank {self._rank} has an array {array.name!r} already. A name stands for one "
                    "array as long as its group lasts; give this one another name"
                )
            self._arrays[array.name] = array
            if not self._serves:
                self._serves = True
                self._background.post(
                    lambda: self._inbox.open(self._ranks, self._receive, self._skip)
                )
        self.look_again()

    def look_again(self) -> None:
        """Serve requests that waited for a new array or version."""
        self._background.post(self._serve_waiting)

    def leave(self, why: str) -> bool:
        """Wait for nothing any more, because of ``why``: serve what there is, refuse the rest.

        Returns whether this rank has an array; without one, no request is read here.
        """
        with self._lock:
            serves = self._serves
        if serves:
            self._background.post(lambda: self._refuse_waiting(why))
        return serves

    def _refuse_waiting(self, why: str) -> None:
        self._left = why
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._serve_or_wait(each)

    def close(self) -> None:
        """Serve no longer."""
        self._background.close()
        self._inbox.close()

    def _skip(self, client: int, number: int, detail: str) -> None:
        self._inbox.listen(client, number + 1)
        self._reply(client, number, refusal("failed", f"not a request: {detail}"))

    def _receive(self, client: int, number: int, record: Array) -> None:
        self._inbox.listen(client, number + 1)
        try:
            request = decode_request(record)
        except ValidationError as error:
            self._reply(client, number, refusal("failed", f"not a request: {error}"))
            return
        if isinstance(request, Release):
            self._release(client, request)
            return
        waiting = _Waiting(client, number, request, self._now_s() + request.timeout_s)
        self._serve_or_wait(waiting)

    def _serve_or_wait(self, waiting: _Waiting) -> None:
        if self._serve(waiting):
            return
        if self._left:
            self._reply(waiting.client, waiting.number, refusal("left", self._left))
            return
        self._waiting.append(waiting)
        self._alarm.set(waiting.until_s)

    def _serve_waiting(self) -> None:
        now_s = self._now_s()
        for waiting in list(self._waiting):
            if self._serve(waiting):
                self._waiting.remove(waiting)
            elif waiting.until_s <= now_s:
                self._waiting.remove(waiting)
                text = self._what_is_missing(waiting.request)
                self._reply(waiting.client, waiting.number, refusal("late", text))
        with self._lock:
            arrays = list(self._arrays.values())
        for array in arrays:
            self._alarm.set(array.expire(now_s))
        self._alarm.set(min((waiting.until_s for waiting in self._waiting), default=math.inf))

    def _serve(self, waiting: _Waiting) -> bool:
        """Serve a request if all that it needs is there; whether it was."""
        with self._lock:
            array = self._arrays.get(waiting.request.name)
        if array is None:
            return False
        if isinstance(waiting.request, PutRequest):
            self._fetch_put(waiting, waiting.request, array)
            return True
        if array.version < waiting.request.at_least:
            return False
        until_s = waiting.until_s + REPLY_GRACE_S
        version, slot = array.lease(
            (waiting.client, waiting.number),
            until_s,
            min(waiting.request.behind, array.version - waiting.request.at_least),
        )
        self._alarm.set(until_s)
        located = Located(
            version=version,
            slot=slot,
            dtype=array.memory.dtype.name,
            shape=array.memory.shape,
        )
        self._reply(waiting.client, waiting.number, located)
        return True

    def _fetch_put(self, waiting: _Waiting, request: PutRequest, array: RegisteredArray) -> None:
        try:
            array.require_fit(request.dtype, request.shape, request.rows)
            incoming = np.empty(request.shape, array.memory.dtype)
        except Exception as error:
            self._reply(waiting.client, waiting.number, self._refusal_of_put(request, error))
            return

        def ended(status: int, detail: str) -> None:
            self._background.post(
                lambda: self._write(waiting, request, array, incoming, status, detail)
            )

        fetch = PeerFetch(
            waiting.client,
            f"/put/{self._rank}",
            waiting.number,
            byte_view(incoming),
            timeout_s=max(0.0, waiting.until_s - self._now_s()),
        )
        self._transfers.fetch(fetch, ended)

    def _write(
        self,
        waiting: _Waiting,
        request: PutRequest,
        array: RegisteredArray,
        incoming: Array,
        status: int,
        detail: str,
    ) -> None:
        reply: Reply
        if status != _core.STATUS_DONE:
            reply = refusal("failed", f"the data of the put was not received: {detail}")
        else:
            try:
                version = array.write(incoming, request.rows, request.combine)
                reply = Written(version=version)
            except Exception as error:
                reply = self._refusal_of_put(request, error)
        self._reply(waiting.client, waiting.number, reply)

    def _refusal_of_put(self, request: PutRequest, error: Exception) -> Refused:
        """The reply to a put that ended here with ``error``."""
        if isinstance(error, MismatchError):
            return refusal("mismatch", str(error))
        if isinstance(error, ReductionOverflow):
            return refusal("overflow", str(error))
        cause = f"{type(error).__name__}: {error}"
        return refusal("failed", f"rank {self._rank} could not write {request.name!r}: {cause}")

    def _reply(self, client: int, number: int, reply: Reply) -> None:
        what = f"reply {number} to rank {client}"
        self._transfers.publish(f"/reply/{client}", number, encode(reply), what, kept=REPLIES_KEPT)

    def _release(self, client: int, release: Release) -> None:
        with self._lock:
            array = self._arrays.get(release.name)
        if array is not None:
            array.release((client, release.of))

    def _what_is_missing(self, request: GetRequest | PutRequest) -> str:
        with self._lock:
            array = self._arrays.get(request.name)
            names = ", ".join(repr(name) for name in self._arrays)
        if array is None:
            return f"rank {self._rank} has no array {request.name!r}; it has {names}"
        at_least = request.at_least if isinstance(request, GetRequest) else 0
        return (
            f"{request.name!r} of rank {self._rank} is at version {array.version}, and version "
            f"{at_least} was waited for"
        )
