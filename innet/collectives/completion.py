"""How an operation ended: typed completions, the errors that they mean, and what is logged."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any, NamedTuple

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
from innet.node.messages import GroupFailure
from innet.telemetry.events import report

_ERRORS: dict[int, type[CollectiveError]] = {
    _core.STATUS_DEADLINE_EXCEEDED: DeadlineExceeded,
    _core.STATUS_MISMATCH: MismatchError,
    _core.STATUS_OVERFLOW: ReductionOverflow,
    _core.STATUS_CANCELLED: Cancelled,
}

_SHARED_ERRORS: dict[type[BaseException], int] = {
    MismatchError: _core.STATUS_MISMATCH,
    ReductionOverflow: _core.STATUS_OVERFLOW,
}
"""Errors of one rank's call that are the same error on the other ranks."""

_OVERFLOW_HINT = (
    'use a wider type, scale the values, or set comm.overflow = "wrap" to add modulo 2**n'
)

_FAILED_RANK = re.compile(r"rank (\d+) \(\S+\)[: ]")

_log = logging.getLogger(__name__)


class Completion(NamedTuple):
    """How an operation ended.

    Attributes:
        status: a ``STATUS_`` constant of the native module.
        detail: the cause, for people.
        failed_rank: the rank that failed, where another rank's failure ended the operation.
    """

    status: int = _core.STATUS_DONE
    detail: str = ""
    failed_rank: int | None = None

    @classmethod
    def of_node(cls, status: int, detail: str) -> Completion:
        """The completion of an operation of the node.

        The node passes on the content of a TensorError, which begins with the rank that failed
        (:func:`innet.node.messages.named_rank`; docs/protocol.md, Data packets).
        """
        failed_rank = None
        if status in (_core.STATUS_ABORTED, _core.STATUS_PEER_FAILED):
            named = _FAILED_RANK.match(detail)
            failed_rank = int(named[1]) if named else None
        return cls(status, detail, failed_rank)


def failure_for_others(who: str, what: str, cause: BaseException | str) -> tuple[int, str]:
    """Status and detail, on other ranks, of a call that failed here before it contributed.

    Args:
        who: this rank as :func:`innet.node.messages.named_rank` names it.
        what: the call.
        cause: the error of the call here.
    """
    if isinstance(cause, RankFailed) and cause.rank is not None:
        # The controller sends the other ranks the same, and recovery waits for this error.
        return _core.STATUS_ABORTED, cause.reason
    status, why = _core.STATUS_PEER_FAILED, cause
    if isinstance(cause, BaseException):
        why = f"{type(cause).__name__}: {cause}"
        for kind, shared in _SHARED_ERRORS.items():
            status = shared if isinstance(cause, kind) else status
    return status, f"{who}: {what} failed before it contributed: {why}"


def error_of(
    completion: Completion,
    what: str,
    seq: int | None = None,
    failure: GroupFailure | None = None,
    timeout_s: float | None = None,
) -> CollectiveError:
    """The error of an operation that ended with a status other than ``STATUS_DONE``.

    Args:
        completion: how it ended.
        what: the operation, for people.
        seq: its number in its group, if it has one; without it, the message begins with ``what``.
        failure: why the group cannot go on, when that is known here.
        timeout_s: the operation's timeout, when the message should state it.
    """
    status, detail, failed_rank = completion
    if status == _core.STATUS_ABORTED:
        if failure is None and failed_rank is not None:
            # Another rank learned of the failure first and passed it on.
            failure = GroupFailure(detail, failed_rank)
        if failure is not None:
            if seq is None:
                failure = failure._replace(why=f"{what}: {failure.why}")
            return error_of_failure(failure, what, seq)
    told = detail if seq is not None else f"{what}: {detail}"
    if status == _core.STATUS_PEER_FAILED:
        return PeerError(told, operation=what, seq=seq, rank=failed_rank)
    kind = _ERRORS.get(status, CollectiveError)
    if kind is ReductionOverflow:
        told += f"; {_OVERFLOW_HINT}"
    if kind is DeadlineExceeded:
        within = "" if timeout_s is None else f" within the timeout of {timeout_s:g} s"
        told = f"{told}{within} ({TIMEOUT_HINT})"
    return kind(told, operation=what, seq=seq)


def error_of_failure(
    failure: GroupFailure, what: str = "", seq: int | None = None
) -> CollectiveError:
    """The error of an operation whose group failed, because a rank did or for another reason."""
    why, rank = failure
    if rank is None:
        return CollectiveError(why, operation=what, seq=seq)
    return RankFailed(why, operation=what, seq=seq, rank=rank)


OnEnd = Callable[[BaseException | None], None]
"""Receives the error of an operation that has ended, ``None`` of one that succeeded."""


class OperationLog:
    """Logs the operations of one group.

    A failure is an event; the beginning and the success of an operation are ``debug`` records. All
    have the fields ``job``, ``group``, ``operation`` and ``seq`` (docs/monitoring.md, Logs).
    """

    def __init__(self, job: str, group: str) -> None:
        self._group_fields = {"job": job, "group": group}

    @property
    def is_silent(self) -> bool:
        """Whether operations that go well leave no record."""
        return not _log.isEnabledFor(logging.DEBUG)

    def follow(self, what: str, seq: int | None = None) -> OnEnd:
        """Log that an operation begins; the result logs its end.

        Args:
            what: the operation, such as ``allreduce(sum.f32, shape (4096,))``.
            seq: its number in its group, if it has one.
        """
        self._debug("begins", what, seq)

        def log_end(error: BaseException | None) -> None:
            if error is None:
                self._debug("has ended", what, seq)
            elif not isinstance(error, Cancelled):  # the caller cancelled it on purpose
                known = error.seq if isinstance(error, CollectiveError) else None
                kind = type(error).__name__
                fields = self._fields(what, seq if known is None else known)
                report("operation_failed", f"{kind}: {error}", error=kind, **fields)

        return log_end

    def _debug(self, happened: str, what: str, seq: int | None) -> None:
        if _log.isEnabledFor(logging.DEBUG):
            named = what if seq is None else f"{what} seq={seq}"
            _log.debug("%s %s", named, happened, extra=self._fields(what, seq))

    def _fields(self, what: str, seq: int | None) -> dict[str, Any]:
        return {**self._group_fields, "operation": what, "seq": seq}
