"""How many segments are asked for at once, and for how long an answer is awaited. Sans-IO.

Additive increase and multiplicative decrease with slow start (RFC 5681), where a loss of what was
sent before the last decrease does not count again (RFC 6582's recovery point); the timeout is RFC
6298's.
"""

from __future__ import annotations

_DECREASE = 0.5
_MIN_WINDOW = 2.0
_MAX_DOUBLINGS = 64
"""Beyond any longest timeout; a patient fetch makes more attempts than a float has doublings."""


class CongestionWindow:
    """Window of one fetch, in segments.

    Args:
        initial: asked for at first.
        largest: bound of what may be under way.
    """

    def __init__(self, *, initial: int = 8, largest: int = 512) -> None:
        self._size = float(initial)
        self._largest = float(largest)
        self._threshold = float("inf")
        self._sent = 0
        self._recovery_point = 0

    @property
    def size(self) -> int:
        """Segments that may be under way."""
        return int(self._size)

    def on_send(self) -> int:
        """Counts a request; the number tells it from others when its fate is known."""
        self._sent += 1
        return self._sent

    def on_answer(self) -> None:
        """An answer came in time."""
        step = 1.0 if self._size < self._threshold else 1.0 / self._size
        self._size = min(self._size + step, self._largest)

    def on_congestion(self, sent: int) -> None:
        """Request number ``sent`` was lost, or its answer carried a congestion mark."""
        if sent <= self._recovery_point:
            return
        self._recovery_point = self._sent
        self._size = self._threshold = max(self._size * _DECREASE, _MIN_WINDOW)


class RetransmissionTimer:
    """How long to wait for an answer, from how long others took. All times in seconds."""

    def __init__(
        self, *, initial_s: float = 1.0, shortest_s: float = 0.2, longest_s: float = 4.0
    ) -> None:
        self._timeout_s = initial_s
        self._shortest_s = shortest_s
        self._longest_s = longest_s
        self._smoothed_s: float | None = None
        self._variation_s = 0.0

    def timeout_s(self, attempt: int) -> float:
        """For the ``attempt``-th request of the same segment, from 0: doubled each time."""
        return min(self._timeout_s * 2.0 ** min(attempt, _MAX_DOUBLINGS), self._longest_s)

    def on_sample(self, rtt_s: float) -> None:
        """An answer to a request that was sent once took ``rtt_s``."""
        if self._smoothed_s is None:
            self._smoothed_s, self._variation_s = rtt_s, rtt_s / 2
        else:
            self._variation_s += 0.25 * (abs(self._smoothed_s - rtt_s) - self._variation_s)
            self._smoothed_s += 0.125 * (rtt_s - self._smoothed_s)
        self._timeout_s = max(self._shortest_s, self._smoothed_s + 4 * self._variation_s)
