"""The asking side of gets and puts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from innet._native import _core
from innet.collectives.arrays import Array, Output, as_input, byte_view, output_like
from innet.collectives.failures import error_of, error_of_failure
from innet.collectives.lazy_list import LazyList
from innet.collectives.one_sided.array_server import REPLY_GRACE_S
from innet.collectives.one_sided.exchange import Exchange
from innet.collectives.one_sided.records import (
    RECORD_BYTES,
    Combine,
    GetRequest,
    Located,
    PutRequest,
    Refused,
    Release,
    Reply,
    Rows,
    decode_reply,
    empty_record,
    encode,
)
from innet.collectives.one_sided.registered_array import snapshot_kind
from innet.collectives.one_sided.requests import RequestNumbers
from innet.collectives.one_sided.transfers import Bytes, Ended, Transfers
from innet.collectives.operation_log import OperationLog
from innet.collectives.work import Work
from innet.errors import CollectiveError, DeadlineExceeded, MismatchError, ReductionOverflow
from innet.node.control.protocol import Failure
from innet.plans.element_types import dtype_called

_REFUSALS: dict[str, type[CollectiveError]] = {
    "late": DeadlineExceeded,
    "mismatch": MismatchError,
    "overflow": ReductionOverflow,
    "failed": CollectiveError,
}


class Snapshot(NamedTuple):
    """One version of an array (or of some of its rows)."""

    array: Array
    version: int


@dataclass(frozen=True)
class _Get:
    """A get under way."""

    what: str
    name: str
    path: str
    source: int
    rows: Rows | None
    out: Array | None
    until_s: float
    exchange: Exchange[Snapshot]


class RemoteArrays:
    """``get`` and ``put`` of one rank."""

    def __init__(
        self,
        transfers: Transfers,
        ranks: int,
        rank: int,
        failure: Callable[[], Failure | None],
        log: OperationLog,
        now_s: Callable[[], float],
    ) -> None:
        """``failure`` tells what ended the group, if something did; timeouts are of ``now_s``."""
        self._now_s = now_s
        self._transfers = transfers
        self._rank = rank
        self._failure = failure
        self._log = log
        self._numbers: Sequence[RequestNumbers] = LazyList(ranks, RequestNumbers)

    def get(
        self,
        name: str,
        path: str,
        source: int,
        *,
        out: Array | None,
        rows: Rows | None,
        at_least: int,
        behind: int,
        timeout_s: float,
    ) -> Work[Snapshot]:
        """Ask for a snapshot's place, fetch it, let it go."""
        request = GetRequest(name=name, timeout_s=timeout_s, at_least=at_least, behind=behind)
        get = _Get(
            what=f"get({name!r}, source={source})",
            name=name,
            path=path,
            source=source,
            rows=rows,
            out=out,
            until_s=self._now_s() + timeout_s,
            exchange=Exchange(),
        )
        record = encode(request)
        number = self._numbers[source].take_get()

        def replied(reply: Reply) -> None:
            if isinstance(reply, Located):
                self._fetch(get, number, reply)
            else:
                get.exchange.fail(CollectiveError(f"{get.what}: not a reply to a get: {reply}"))

        try:
            self._ask(source, number, record, get.what, timeout_s, get.exchange, replied)
        except BaseException:
            self._take_back(source, number, name)
            raise
        return get.exchange.work(self._log.follow(get.what))

    def put(
        self,
        name: str,
        to: int,
        array: Array,
        *,
        rows: Rows | None,
        combine: Combine,
        timeout_s: float,
    ) -> Work[int]:
        """Offer ``array`` to the owner, and wait until it has been written."""
        request = PutRequest(
            name=name,
            timeout_s=timeout_s,
            dtype=array.dtype.name,
            shape=array.shape,
            rows=rows,
            combine=combine,
        )
        what = f"put({name!r}, to={to}, {array.dtype}, shape {array.shape})"
        exchange: Exchange[int] = Exchange()
        record = encode(request)
        number = self._numbers[to].take_put()

        def replied(reply: Reply) -> None:
            if isinstance(reply, (Located, Refused)):
                exchange.fail(CollectiveError(f"{what}: not a reply to a put: {reply}"))
            else:
                exchange.succeed(reply.version)

        try:
            self._transfers.publish(f"/put/{to}", number, byte_view(as_input(array)), what)
            self._ask(to, number, record, what, timeout_s, exchange, replied)
        except BaseException:
            self._take_back(to, number, name)
            raise
        return exchange.work(self._log.follow(what))

    def _ask(
        self,
        owner: int,
        number: int,
        request: Bytes,
        what: str,
        timeout_s: float,
        exchange: Exchange[Any],
        replied: Callable[[Reply], None],
    ) -> None:
        """Publish a request; ``replied`` takes the owner's reply unless that is a refusal."""
        reply_record = empty_record()

        def ended(status: int, detail: str) -> None:
            answered = status == _core.STATUS_DONE
            if status != _core.STATUS_ABORTED:  # else all goes that was published
                self._close(owner, number, answered=answered)
            if not answered:
                exchange.fail(self._error(status, detail, what))
                return
            reply = decode_reply(reply_record)
            if isinstance(reply, Refused):
                exchange.fail(_REFUSALS[reply.why](f"{what}: {reply.text}"))
            else:
                replied(reply)

        self._transfers.publish(f"/request/{owner}", number, request, what)
        operation = self._transfers.fetch(
            owner,
            f"/reply/{self._rank}",
            number,
            reply_record,
            size_bytes=RECORD_BYTES,
            timeout_s=timeout_s + REPLY_GRACE_S,
            ended=_failing(exchange, ended),
            what=what,
        )
        exchange.set_stage(lambda: self._transfers.cancel(operation))

    def _fetch(self, get: _Get, number: int, located: Located) -> None:
        landing = _Landing(get, located, self._transfers.segment_bytes)

        def ended(status: int, detail: str) -> None:
            if status != _core.STATUS_ABORTED:
                self._release(get, number)
            if status != _core.STATUS_DONE:
                get.exchange.fail(self._error(status, detail, get.what))
                return
            get.exchange.succeed(Snapshot(landing.finish(), located.version))

        if landing.memory.size == 0:
            ended(_core.STATUS_DONE, "")
            return
        operation = self._transfers.fetch(
            get.source,
            snapshot_kind(located.slot, get.path),
            located.version,
            landing.memory,
            size_bytes=landing.size_bytes,
            first_segment=landing.first_segment,
            timeout_s=max(0.0, get.until_s - self._now_s()),
            ended=_failing(get.exchange, ended),
            what=f"{get.what} data",
        )
        get.exchange.set_stage(lambda: self._transfers.cancel(operation))

    def _release(self, get: _Get, of: int) -> None:
        number = self._numbers[get.source].take_release()
        record = encode(Release(name=get.name, of=of))
        self._transfers.publish(f"/request/{get.source}", number, record, f"release of {of}")

    def _take_back(self, owner: int, number: int, name: str) -> None:
        """A number was taken for what cannot be asked; the owner would wait for it for ever.

        Nothing happens when it was asked before something, such as an interrupt, ended the call.
        """
        self._close(owner, number, answered=False)
        nothing = encode(Release(name=name, of=number))
        with suppress(CollectiveError):  # it was asked; or the caller hears of the first error
            self._transfers.publish(f"/request/{owner}", number, nothing, f"no request {number}")

    def _close(self, owner: int, number: int, *, answered: bool) -> None:
        useless = self._numbers[owner].close(number, answered=answered)
        if useless.requests >= 0:
            self._transfers.retire(f"/request/{owner}", useless.requests)
        if useless.puts >= 0:
            self._transfers.retire(f"/put/{owner}", useless.puts)

    def _error(self, status: int, detail: str, what: str) -> BaseException:
        failure = self._failure()
        if status == _core.STATUS_ABORTED and failure is not None:
            why, rank = failure
            return error_of_failure((f"{what}: {why}", rank))
        error = error_of(status, f"{what}: {detail}", what, None, None)
        return error or CollectiveError(f"{what}: it ended without a result")


class _Landing:
    """Where the segments of a snapshot land: in the caller's array when they fit, or beside it."""

    def __init__(self, get: _Get, located: Located, segment_bytes: int) -> None:
        dtype = dtype_called(located.dtype)
        rows = located.shape[0] if located.shape else 1
        self._first, self._end = (0, rows) if get.rows is None else get.rows
        if self._end > rows:
            raise CollectiveError(
                f"{get.what}: there are no rows {self._first} to {self._end} in shape "
                f"{located.shape}"
            )
        shape = located.shape if get.rows is None else (self._end - self._first, *located.shape[1:])
        if get.out is not None and (get.out.shape != shape or get.out.dtype != dtype):
            raise MismatchError(
                f"{get.what}: the array has shape {shape} and type {dtype}, and out= has "
                f"{get.out.shape} and {get.out.dtype}"
            )
        self._output: Output = output_like(get.out, shape, dtype)
        self.size_bytes = int(np.prod(located.shape)) * dtype.itemsize
        row_bytes = self.size_bytes // rows if rows else 0
        first_byte, end_byte = self._first * row_bytes, self._end * row_bytes
        self.first_segment = first_byte // segment_bytes
        start = self.first_segment * segment_bytes
        self._skipped = first_byte - start
        end_segment = -(-end_byte // segment_bytes)
        covered = min(end_segment * segment_bytes, self.size_bytes) - start
        wanted = byte_view(self._output.memory)
        self._wanted = wanted
        empty = wanted.size == 0
        exact = not empty and self._skipped == 0 and covered == wanted.size
        self.memory = wanted if exact or empty else np.empty(covered, np.uint8)

    def finish(self) -> Array:
        """The result, once all segments are there."""
        if self.memory is not self._wanted:
            self._wanted[:] = self.memory[self._skipped : self._skipped + self._wanted.size]
        return self._output.finish()


def _failing(exchange: Exchange[Any], ended: Ended) -> Ended:
    """``ended``, whose own errors become those of the exchange: nobody else would hear of them."""

    def guarded(status: int, detail: str) -> None:
        try:
            ended(status, detail)
        except Exception as error:
            exchange.fail(error)

    return guarded
