"""The owner's side: serves the arrays of one rank in the background of its program."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from pydantic import ValidationError

from innet._native import _core
from innet.collectives.arrays import Array, byte_view
from innet.collectives.one_sided.registered_array import RegisteredArray
from innet.collectives.one_sided.requests import (
    REPLIES_KEPT,
    GetRequest,
    Located,
    PutRequest,
    Refused,
    Release,
    Reply,
    Written,
    decode_request,
    empty_record,
    encode,
    refusal,
)
from innet.collectives.transfers import PeerFetch, Transfers
from innet.errors import CollectiveError, MismatchError, ReductionOverflow
from innet.worker.background import Alarm, Background

REPLY_GRACE_S = 0.5
"""How much longer a requester waits than the owner tries, so that it receives the reason."""
_ASK_AGAIN_S = 0.1
"""Pause before the next attempt to reach an unreachable rank."""
_LISTEN_TIMEOUT_S = 3600.0


@dataclass(frozen=True)
class _Waiting:
    """A request for an array or a version that does not exist yet."""

    client: int
    number: int
    request: GetRequest | PutRequest
    until_s: float


class ArrayServer:
    """Reads the requests of every rank, each rank's in order, and answers them.

    An Interest for the next request of each rank waits at that rank all the time.
    """

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
        self._listening: dict[int, int] = {}
        self._unreachable: list[tuple[int, int]] = []
        """Unreachable ranks, and the numbers of the requests to fetch from them later."""
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
                self._background.post(self._listen_to_all)
        self.look_again()

    def look_again(self) -> None:
        """Serve requests that waited for a new array or version."""
        self._background.post(self._serve_waiting)

    def close(self) -> None:
        """Serve no longer."""
        self._background.close()
        for operation in self._listening.values():
            self._transfers.cancel(operation)

    def _listen_to_all(self) -> None:
        for client in range(self._ranks):
            self._listen(client, 0)

    def _listen(self, client: int, number: int) -> None:
        record = empty_record()

        def ended(status: int, detail: str) -> None:
            if status == _core.STATUS_DONE:
                self._background.post(lambda: self._receive(client, number, record))
            elif status == _core.STATUS_DEADLINE_EXCEEDED:
                self._background.post(lambda: self._listen(client, number))
            elif status == _core.STATUS_MISMATCH:
                self._background.post(lambda: self._skip(client, number, detail))
            elif status not in (_core.STATUS_ABORTED, _core.STATUS_CANCELLED):
                self._background.post(lambda: self._ask_again(client, number))

        fetch = PeerFetch(client, f"/request/{self._rank}", number, record, _LISTEN_TIMEOUT_S)
        self._listening[client] = self._transfers.fetch(fetch, ended)

    def _ask_again(self, client: int, number: int) -> None:
        self._unreachable.append((client, number))
        self._alarm.set(self._now_s() + _ASK_AGAIN_S)

    def _skip(self, client: int, number: int, detail: str) -> None:
        self._listen(client, number + 1)
        self._reply(client, number, refusal("failed", f"not a request: {detail}"))

    def _receive(self, client: int, number: int, record: Array) -> None:
        self._listen(client, number + 1)
        try:
            request = decode_request(record)
        except ValidationError as error:
            self._reply(client, number, refusal("failed", f"not a request: {error}"))
            return
        if isinstance(request, Release):
            self._release(client, request)
            return
        waiting = _Waiting(client, number, request, self._now_s() + request.timeout_s)
        if not self._serve(waiting):
            self._waiting.append(waiting)
            self._alarm.set(waiting.until_s)

    def _serve_waiting(self) -> None:
        unreachable, self._unreachable = self._unreachable, []
        for client, number in unreachable:
            self._listen(client, number)
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
        kind = f"/reply/{client}"
        self._transfers.publish(kind, number, encode(reply), f"reply {number} to rank {client}")
        if number >= REPLIES_KEPT:
            self._transfers.retire(kind, number - REPLIES_KEPT)

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
