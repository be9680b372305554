"""State of one fetch: segments received, requested and missing; window and timeout. Sans-IO."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from innet.errors import MalformedPacket

_DECREASE = 0.5
_MIN_WINDOW = 2.0
_MAX_DOUBLINGS = 64
"""Beyond any longest timeout; a patient fetch makes more attempts than a float has doublings."""


class CongestionWindow:
    """Window of one fetch, in segments.

    Additive increase and multiplicative decrease with slow start (RFC 5681). A request that
    was sent before the last decrease does not decrease it again (RFC 6582, recovery point).

    Args:
        initial: segments requested at first.
        largest: most segments requested at once.
    """

    def __init__(self, *, initial: int = 8, largest: int = 512) -> None:
        self._size = float(initial)
        self._largest = float(largest)
        self._threshold = float("inf")
        self._sent = 0
        self._recovery_point = 0

    @property
    def size(self) -> int:
        """Segments that may be requested at once."""
        return int(self._size)

    def on_send(self) -> int:
        """Counts a request and returns its number, for :meth:`on_congestion`."""
        self._sent += 1
        return self._sent

    def on_answer(self) -> None:
        """An answer arrived in time."""
        step = 1.0 if self._size < self._threshold else 1.0 / self._size
        self._size = min(self._size + step, self._largest)

    def on_congestion(self, sent: int) -> None:
        """Request number ``sent`` was lost, or its answer carried a congestion mark."""
        if sent <= self._recovery_point:
            return
        self._recovery_point = self._sent
        self._size = self._threshold = max(self._size * _DECREASE, _MIN_WINDOW)


class RetransmissionTimer:
    """Retransmission timeout from measured round trips (RFC 6298). All times in seconds."""

    def __init__(
        self, *, initial_s: float = 1.0, shortest_s: float = 0.2, longest_s: float = 4.0
    ) -> None:
        self._timeout_s = initial_s
        self._shortest_s = shortest_s
        self._longest_s = longest_s
        self._smoothed_s: float | None = None
        self._variation_s = 0.0

    def timeout_s(self, attempt: int) -> float:
        """Timeout of the ``attempt``-th request of a segment, from 0: doubled each time."""
        return min(self._timeout_s * 2.0 ** min(attempt, _MAX_DOUBLINGS), self._longest_s)

    def on_sample(self, rtt_s: float) -> None:
        """An answer to a request that was sent once took ``rtt_s``."""
        if self._smoothed_s is None:
            self._smoothed_s, self._variation_s = rtt_s, rtt_s / 2
        else:
            self._variation_s += 0.25 * (abs(self._smoothed_s - rtt_s) - self._variation_s)
            self._smoothed_s += 0.125 * (rtt_s - self._smoothed_s)
        self._timeout_s = max(self._shortest_s, self._smoothed_s + 4 * self._variation_s)


_MAX_SEGMENTS = 1 << 32
"""Most segments of an object; a fetch requests none beyond."""


class SegmentQueue:
    """Decides which segments to request, and keeps those that arrive, in any order.

    >>> queue = SegmentQueue()
    >>> queue.take(), queue.take()
    (0, 1)
    >>> queue.set_total(3)
    >>> queue.lost(0)
    >>> queue.arrived(1, b"second"), queue.take(), queue.take(), queue.take()
    (True, 0, 2, None)
    >>> queue.arrived(0, b"first"), queue.in_order()
    (True, [b'first', b'second'])
    >>> queue.missing()
    [(2, 2)]
    """

    def __init__(self) -> None:
        self._total: int | None = None
        self._next_new = 0
        self._again: deque[int] = deque()
        self._early: dict[int, bytes] = {}
        self._next_in_order = 0

    @property
    def total(self) -> int | None:
        """Number of segments; ``None`` until a packet has the FinalBlockId."""
        return self._total

    @property
    def arrived_count(self) -> int:
        """Number of segments that have arrived."""
        return self._next_in_order + len(self._early)

    @property
    def complete(self) -> bool:
        """Whether all segments have arrived."""
        return self.arrived_count == self._total

    def set_total(self, total: int) -> None:
        """Set the number of segments, which an accepted packet states. It may grow: a FinalBlockId
        before the last segment is advance warning.

        Raises:
            MalformedPacket: more than any object has, or fewer than have arrived or than another
                segment stated.
        """
        if self._total is not None and total < self._total:
            raise MalformedPacket(
                f"segments of one object state different FinalBlockIds, {self._total - 1} and "
                f"{total - 1}: its producer changed it without a new version, or caches mix two "
                "objects of this name; fetch another version"
            )
        least = max([self._next_in_order, *(segment + 1 for segment in self._early)])
        if not least <= total <= _MAX_SEGMENTS:
            raise MalformedPacket(
                f"a producer says that its object has {total} segments, and at least {least} and "
                f"at most {_MAX_SEGMENTS} are possible: its FinalBlockId is wrong"
            )
        self._total = total

    def take(self) -> int | None:
        """The next segment to request; ``None`` when all have arrived or are under way."""
        while self._again:
            segment = self._again.popleft()
            if not self._has(segment) and self._exists(segment):
                return segment
        while self._has(self._next_new):
            self._next_new += 1
        if not self._exists(self._next_new):
            return None
        self._next_new += 1
        return self._next_new - 1

    def lost(self, segment: int) -> None:
        """A segment was not answered: :meth:`take` returns it again, before new ones."""
        self._again.append(segment)

    def arrived(self, segment: int, content: bytes) -> bool:
        """Keep a segment's content; false when it was there already."""
        if self._has(segment) or not self._exists(segment):
            return False
        self._early[segment] = content
        return True

    def in_order(self) -> list[bytes]:
        """The contents that follow those of the last call, without a gap."""
        contents: list[bytes] = []
        while self._next_in_order in self._early:
            contents.append(self._early.pop(self._next_in_order))
            self._next_in_order += 1
        return contents

    def missing(self) -> Sequence[tuple[int, int]]:
        """First and last of each run of missing segments, as far as their number is known."""
        runs: list[tuple[int, int]] = []
        expected = self._next_in_order
        for segment in sorted(self._early):
            if segment > expected:
                runs.append((expected, segment - 1))
            expected = segment + 1
        end = self._next_new if self._total is None else self._total
        if end > expected:
            runs.append((expected, end - 1))
        return runs

    def _has(self, segment: int) -> bool:
        return segment < self._next_in_order or segment in self._early

    def _exists(self, segment: int) -> bool:
        return segment < (_MAX_SEGMENTS if self._total is None else self._total)
