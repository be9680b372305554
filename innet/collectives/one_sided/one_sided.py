"""``register``, ``get`` and ``put`` of one rank: the requesting side of one-sided calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, get_args

import numpy as np

from innet._native import _core
from innet.collectives.arrays import (
    Array,
    Bytes,
    Output,
    as_input,
    byte_view,
    copied_type,
    output_like,
    require_array,
)
from innet.collectives.completion import Completion, error_of, error_of_failure
from innet.collectives.group import LazyList
from innet.collectives.objects import quoted_path
from innet.collectives.one_sided.array_server import (
    REPLY_GRACE_S,
    ArrayServer,
    RegisteredArray,
    snapshot_kind,
)
from innet.collectives.one_sided.requests import (
    Combine,
    GetRequest,
    Located,
    PutRequest,
    Refused,
    Release,
    Reply,
    RequestNumbers,
    Rows,
    decode_reply,
    empty_record,
    encode,
)
from innet.collectives.runner import OperationRunner
from innet.collectives.transfers import Ended, PeerFetch, Transfers
from innet.collectives.work import Promise, Work, timeout_or
from innet.errors import (
    CollectiveError,
    DeadlineExceeded,
    MismatchError,
    RankFailed,
    ReductionOverflow,
)
from innet.plans.element_types import dtype_called

_REFUSALS: dict[str, type[CollectiveError]] = {
    "late": DeadlineExceeded,
    "left": RankFailed,
    "mismatch": MismatchError,
    "overflow": ReductionOverflow,
    "failed": CollectiveError,
}


class Snapshot(NamedTuple):
    """One version of an array (or of some of its rows)."""

    array: Array
    version: int


@dataclass(frozen=True)
class _Ask:
    """A request under way.

    Attributes:
        what: the call, for people.
        owner: the rank that receives it.
        number: of the request among those to this owner.
        timeout_s: of the call.
        work: what the caller holds.
    """

    what: str
    owner: int
    number: int
    timeout_s: float
    work: Promise[Any]


@dataclass(frozen=True)
class _Get:
    """The arguments of a get."""

    name: str
    path: str
    rows: Rows | None
    out: Array | None
    until_s: float


class OneSided:
    """The one-sided calls of one communicator; they are documented there."""

    def __init__(self, runner: OperationRunner, transfers: Transfers) -> None:
        services = runner.services
        self._runner = runner
        self._transfers = transfers
        self._now_s = services.now_s
        background = services.background("innet-arrays")
        self._server = ArrayServer(transfers, runner.size, runner.rank, background, self._now_s)
        self._numbers: Sequence[RequestNumbers] = LazyList(runner.size, RequestNumbers)

    def register(self, name: str, array: Array) -> RegisteredArray:
        """Let other ranks read and write ``array``."""
        self._runner.require_open()
        _require_named_type(array)
        if not array.flags.writeable or not array.flags.c_contiguous:
            raise CollectiveError(
                f"the array to register as {name!r} must be writable and contiguous; register "
                "numpy.ascontiguousarray(array)"
            )
        registered = RegisteredArray(
            name, quoted_path(name), array, self._transfers, self._server.look_again
        )
        self._server.add(registered)
        return registered

    def get(
        self,
        name: str,
        source: int,
        out: Array | None,
        *,
        rows: slice | None,
        at_least: int,
        behind: int,
        timeout_s: float | None,
    ) -> Work[Snapshot]:
        """Ask for the place of a snapshot, fetch the snapshot, release it."""
        self._runner.require_member(source)
        limit_s = timeout_or(timeout_s, self._runner.timeout_s)
        if out is not None:
            require_array(out)
        get = _Get(
            name=name,
            path=quoted_path(name),
            rows=_bounds(rows),
            out=out,
            until_s=self._now_s() + limit_s,
        )
        record = encode(GetRequest(name=name, timeout_s=limit_s, at_least=at_least, behind=behind))
        number = self._numbers[source].take_get()
        what = f"get({name!r}, source={source})"
        work: Promise[Snapshot] = Promise(on_end=self._runner.follow(what))
        ask = _Ask(what, source, number, limit_s, work)

        def on_reply(reply: Reply) -> None:
            if isinstance(reply, Located):
                self._fetch(ask, get, reply)
            else:
                work.fail(CollectiveError(f"{what}: not a reply to a get: {reply}"))

        try:
            self._ask(ask, record, on_reply)
        except BaseException:
            self._take_back(ask, name)
            raise
        return work

    def put(
        self,
        name: str,
        to: int,
        array: Array,
        *,
        rows: slice | None,
        combine: Combine,
        timeout_s: float | None,
    ) -> Work[int]:
        """Offer ``array`` to the owner, and wait until it has been written."""
        self._runner.require_member(to)
        quoted_path(name)  # no array can have another name
        limit_s = timeout_or(timeout_s, self._runner.timeout_s)
        _require_named_type(array)
        if combine not in get_args(Combine):
            raise CollectiveError(
                f"unknown combine={combine!r}; a put can {' or '.join(get_args(Combine))}"
            )
        request = PutRequest(
            name=name,
            timeout_s=limit_s,
            dtype=array.dtype.name,
            shape=array.shape,
            rows=_bounds(rows),
            combine=combine,
        )
        record = encode(request)
        number = self._numbers[to].take_put()
        what = f"put({name!r}, to={to}, {array.dtype}, shape {array.shape})"
        work: Promise[int] = Promise(on_end=self._runner.follow(what))
        ask = _Ask(what, to, number, limit_s, work)

        def on_reply(reply: Reply) -> None:
            if isinstance(reply, (Located, Refused)):
                work.fail(CollectiveError(f"{what}: not a reply to a put: {reply}"))
            else:
                work.succeed(reply.version)

        try:
            self._transfers.publish(f"/put/{to}", number, byte_view(as_input(array)), what)
            self._ask(ask, record, on_reply)
        except BaseException:
            self._take_back(ask, name)
            raise
        return work

    def leave(self, why: str) -> bool:
        """Serve the arrays that there are, and wait for nothing; whether there are any."""
        return self._server.leave(why)

    def close(self) -> None:
        """Serve no arrays any more."""
        self._server.close()

    def _ask(self, ask: _Ask, request: Bytes, on_reply: Callable[[Reply], None]) -> None:
        """Publish a request; ``on_reply`` receives the owner's reply unless that is a refusal."""
        reply_record = empty_record()

        def ended(status: int, detail: str) -> None:
            answered = status == _core.STATUS_DONE
            if status != _core.STATUS_ABORTED:  # that drops all that was published
                self._close(ask, answered=answered)
            if not answered:
                ask.work.fail(self._error(status, detail, ask.what))
                return
            reply = decode_reply(reply_record)
            if isinstance(reply, Refused):
                error = _REFUSALS[reply.why](f"{ask.what}: {reply.text}")
                if isinstance(error, RankFailed):
                    error.rank = ask.owner
                ask.work.fail(error)
            else:
                on_reply(reply)

        self._transfers.publish(f"/request/{ask.owner}", ask.number, request, ask.what)
        fetch = PeerFetch(
            ask.owner,
            f"/reply/{self._runner.rank}",
            ask.number,
            reply_record,
            timeout_s=ask.timeout_s + REPLY_GRACE_S,
            what=ask.what,
        )
        self._start_stage(ask.work, fetch, ended)

    def _fetch(self, ask: _Ask, get: _Get, located: Located) -> None:
        landing = _Landing(ask.what, get, located, self._transfers.segment_bytes)

        def ended(status: int, detail: str) -> None:
            if status != _core.STATUS_ABORTED:
                self._release(ask, get.name)
            if status != _core.STATUS_DONE:
                ask.work.fail(self._error(status, detail, ask.what))
                return
            ask.work.succeed(Snapshot(landing.finish(), located.version))

        if landing.memory.size == 0:
            ended(_core.STATUS_DONE, "")
            return
        fetch = PeerFetch(
            ask.owner,
            snapshot_kind(located.slot, get.path),
            located.version,
            landing.memory,
            timeout_s=max(0.0, get.until_s - self._now_s()),
            size_bytes=landing.size_bytes,
            first_segment=landing.first_segment,
            what=f"{ask.what} data",
        )
        self._start_stage(ask.work, fetch, ended)

    def _start_stage(self, work: Promise[Any], fetch: PeerFetch, ended: Ended) -> None:
        """Start one fetch of a work; cancelling the work cancels it.

        Errors that ``ended`` raises end the work.
        """

        def on_end(status: int, detail: str) -> None:
            try:
                ended(status, detail)
            except Exception as error:
                work.fail(error)

        def started(operation: int) -> None:
            # Before delivery: the end of this fetch may start the next one, in another thread.
            work.cancel_with(partial(self._transfers.cancel, operation))

        self._transfers.fetch(fetch, on_end, started)

    def _release(self, ask: _Ask, name: str) -> None:
        number = self._numbers[ask.owner].take_release()
        record = encode(Release(name=name, of=ask.number))
        self._transfers.publish(f"/request/{ask.owner}", number, record, f"release of {ask.number}")

    def _take_back(self, ask: _Ask, name: str) -> None:
        """Use up the number of a request that cannot be made: the owner waits for each number.

        Nothing happens if an interrupt ended the call after the request was published.
        """
        self._close(ask, answered=False)
        nothing = encode(Release(name=name, of=ask.number))
        # It was published before, or the caller gets the first error.
        with suppress(CollectiveError):
            self._transfers.publish(
                f"/request/{ask.owner}", ask.number, nothing, f"no request {ask.number}"
            )

    def _close(self, ask: _Ask, *, answered: bool) -> None:
        useless = self._numbers[ask.owner].close(ask.number, answered=answered)
        if useless.requests >= 0:
            self._transfers.retire(f"/request/{ask.owner}", useless.requests)
        if useless.puts >= 0:
            self._transfers.retire(f"/put/{ask.owner}", useless.puts)

    def _error(self, status: int, detail: str, what: str) -> BaseException:
        failure = self._runner.membership.failure
        if status == _core.STATUS_ABORTED and failure is not None:
            return error_of_failure(failure._replace(why=f"{what}: {failure.why}"))
        return error_of(Completion.of_node(status, detail), what)


class _Landing:
    """The memory for the segments of a snapshot: the caller's array if they fit it, or a buffer."""

    def __init__(self, what: str, get: _Get, located: Located, segment_bytes: int) -> None:
        dtype = dtype_called(located.dtype)
        rows = located.shape[0] if located.shape else 1
        self._first, self._end = (0, rows) if get.rows is None else get.rows
        if self._end > rows:
            raise CollectiveError(
                f"{what}: there are no rows {self._first} to {self._end} in shape {located.shape}"
            )
        shape = located.shape if get.rows is None else (self._end - self._first, *located.shape[1:])
        if get.out is not None and (get.out.shape != shape or get.out.dtype != dtype):
            raise MismatchError(
                f"{what}: the array has shape {shape} and type {dtype}, and out= has "
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


def _require_named_type(array: Array) -> None:
    """Refuse types that their name does not describe: requests state the name alone.

    Raises:
        CollectiveError: the array is not plain memory, or its elements have fields or units.
    """
    copied_type(array)
    try:
        is_named = dtype_called(array.dtype.name) == array.dtype
    except TypeError:
        is_named = False
    if not is_named:
        raise CollectiveError(
            f"arrays of {array.dtype} cannot be read and written by other ranks, which know a type "
            "by its name; pass array.view(numpy.uint8), an array over the same memory"
        )


def _bounds(rows: slice | None) -> Rows | None:
    if rows is None:
        return None
    first, end = (rows.start or 0, rows.stop) if isinstance(rows, slice) else (0, None)
    if end is None or rows.step not in (None, 1) or not 0 <= first <= end:
        raise CollectiveError(
            f"rows={rows} must be a range of rows with both ends, such as slice(128, 256)"
        )
    return first, end
