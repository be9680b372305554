"""What becomes of a group's operations, for its process's log and events."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from innet.errors import Cancelled, CollectiveError
from innet.telemetry.events import report

_log = logging.getLogger(__name__)

OnEnd = Callable[[BaseException | None], None]
"""Told of the end of an operation: its error, or ``None`` when it went well."""


class OperationLog:
    """Tells of the operations of one group.

    A failure is an event; that one begins, or ends well, is a record of the level ``debug``. All
    have the fields ``job``, ``group``, ``operation`` and ``seq`` (docs/telemetry.md, Logs).
    """

    def __init__(self, job: str, group: str) -> None:
        self._of_group = {"job": job, "group": group}

    def follow(self, what: str, seq: int | None = None) -> OnEnd:
        """The operation has begun; who is to be told of its end.

        Args:
            what: the operation in words, such as ``allreduce(sum.f32, shape (4096,))``.
            seq: its sequence number in its group, if it has one.
        """
        self._debug("begins", what, seq)

        def ended(error: BaseException | None) -> None:
            if error is None:
                self._debug("has ended", what, seq)
            elif not isinstance(error, Cancelled):  # that is what its caller wanted
                known = error.seq if isinstance(error, CollectiveError) else None
                kind = type(error).__name__
                about = self._about(what, seq if known is None else known)
                report("operation_failed", f"{kind}: {error}", error=kind, **about)

        return ended

    def _debug(self, happened: str, what: str, seq: int | None) -> None:
        if _log.isEnabledFor(logging.DEBUG):
            named = what if seq is None else f"{what} seq={seq}"
            _log.debug("%s %s", named, happened, extra=self._about(what, seq))

    def _about(self, what: str, seq: int | None) -> dict[str, Any]:
        return {**self._of_group, "operation": what, "seq": seq}
