"""How long to wait before a process that died is started again."""

from __future__ import annotations

_LONGEST_PAUSE_S = 5.0
_MOST_DOUBLINGS = 16


def pause_before_restart_s(first_s: float, number: int) -> float:
    """The pause before restart ``number``, from 1: it doubles each time, up to 5 s.

    >>> [pause_before_restart_s(0.2, number) for number in (1, 2, 3, 20)]
    [0.2, 0.4, 0.8, 5.0]
    """
    doubled_s = first_s * 2.0 ** min(number - 1, _MOST_DOUBLINGS)
    return max(first_s, min(doubled_s, _LONGEST_PAUSE_S))
