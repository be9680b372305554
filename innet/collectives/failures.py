"""From the packet path's status of an ended operation to the error a person reads."""

from __future__ import annotations

import re

from innet._native import _core
from innet.errors import (
    TIMEOUT_HINT,
    Cancelled,
    CollectiveError,
    DeadlineExceeded,
    MismatchError,
    PeerError,
    RankFailed,
    ReductionOverflow,
)
from innet.node.control.protocol import Failure

_ERRORS: dict[int, type[CollectiveError]] = {
    _core.STATUS_DEADLINE_EXCEEDED: DeadlineExceeded,
    _core.STATUS_MISMATCH: MismatchError,
    _core.STATUS_OVERFLOW: ReductionOverflow,
    _core.STATUS_CANCELLED: Cancelled,
}

_FAILURES: dict[type[BaseException], int] = {
    MismatchError: _core.STATUS_MISMATCH,
    ReductionOverflow: _core.STATUS_OVERFLOW,
}
"""Errors of one rank's call that are the same error on the other ranks."""

_FAILED_PEER = re.compile(r"rank (\d+) \(")

_FAILED_RANK = re.compile(r"rank (\d+) \(\S+\) ")
"""How the controller's word of a failed rank begins."""


def failure_for_others(who: str, what: str, cause: BaseException | str) -> tuple[int, str]:
    """How a call that failed here before it contributed ends on other ranks: status and detail.

    Args:
        who: this rank in words, such as ``rank 0 (h0)``.
        what: the call.
        cause: what it failed with.
    """
    if isinstance(cause, RankFailed) and cause.rank is not None:
        # What the others would hear from the controller, and what recovery waits for.
        return _core.STATUS_ABORTED, str(cause).removeprefix(f"{cause.operation} seq={cause.seq}: ")
    status, why = _core.STATUS_PEER_FAILED, cause
    if isinstance(cause, BaseException):
        why = f"{type(cause).__name__}: {cause}"
        for kind, known in _FAILURES.items():
            status = known if isinstance(cause, kind) else status
    return status, f"{who}: {what} failed before it contributed: {why}"


def error_of(
    status: int,
    detail: str,
    what: str,
    seq: int | None,
    failure: Failure | None,
    timeout_s: float | None = None,
) -> CollectiveError | None:
    """The error of an operation that ended with ``status``; ``None`` when it went well.

    Args:
        status: how it ended, a ``STATUS_`` constant of the native module.
        detail: what the packet path says about it.
        what: the operation, in words.
        seq: its number in its group, if it has one.
        failure: why the job cannot go on, when that is known here.
        timeout_s: the time that the operation had, when a message should tell.
    """
    if status == _core.STATUS_DONE:
        return None
    if status == _core.STATUS_ABORTED:
        failed_rank = _FAILED_RANK.match(detail)
        if failure is None and failed_rank:
            # Another rank heard of it before the controller's word came here, and passed it on.
            failure = (detail, int(failed_rank[1]))
        if failure is not None:
            return error_of_failure(failure, what, seq)
    if status == _core.STATUS_PEER_FAILED:
        peer = _FAILED_PEER.search(detail)
        return PeerError(detail, operation=what, seq=seq, rank=int(peer[1]) if peer else None)
    kind = _ERRORS.get(status, CollectiveError)
    if kind is DeadlineExceeded:
        within = "" if timeout_s is None else f" within the timeout of {timeout_s:g} s"
        detail = f"{detail}{within} ({TIMEOUT_HINT})"
    return kind(detail, operation=what, seq=seq)


def error_of_failure(failure: Failure, what: str = "", seq: int | None = None) -> CollectiveError:
    """The error that a failed rank (or another end of the job) means for an operation."""
    why, rank = failure
    if rank is None:
        return CollectiveError(why, operation=what, seq=seq)
    return RankFailed(why, operation=what, seq=seq, rank=rank)
