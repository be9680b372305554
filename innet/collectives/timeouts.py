"""What callers say of how long an operation may take."""

from __future__ import annotations

from innet.errors import CollectiveError


def timeout_or(timeout_s: float | None, default_s: float) -> float:
    """``timeout_s``, or the default when none was given.

    Raises:
        CollectiveError: it is not above 0. An operation that has no time would fail always; to look
            whether one has ended, there is ``work.done()``.
    """
    if timeout_s is None:
        return default_s
    if not timeout_s > 0:
        raise CollectiveError(
            f"a timeout of {timeout_s:g} s leaves an operation no time: give a number above 0, or "
            "none for the default. To look whether an operation has ended, call work.done()"
        )
    return timeout_s
