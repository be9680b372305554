"""Which segments of an object are there, under way and missing. Sans-IO."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from innet.errors import MalformedPacket

_MAX_SEGMENTS = 1 << 32
"""Of an object; nothing is asked for beyond."""


class SegmentQueue:
    """Gives out the segments to ask for, and takes what comes, in any order.

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
        """How many there are; ``None`` until somebody has said it."""
        return self._total

    @property
    def arrived_count(self) -> int:
        """How many have come."""
        return self._next_in_order + len(self._early)

    @property
    def complete(self) -> bool:
        """Whether all have come."""
        return self.arrived_count == self._total

    def set_total(self, total: int) -> None:
        """Somebody trusted says how many segments there are.

        Raises:
            MalformedPacket: more than any object has, or fewer than have come.
        """
        least = max([self._next_in_order, *(segment + 1 for segment in self._early)])
        if not least <= total <= _MAX_SEGMENTS:
            raise MalformedPacket(
                f"a producer says that its object has {total} segments, and at least {least} and "
                f"at most {_MAX_SEGMENTS} are possible: its FinalBlockId is wrong"
            )
        self._total = total

    def take(self) -> int | None:
        """A segment to ask for now; ``None`` when all are there or under way."""
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
        """Nobody answered: it will be given out again, before new ones."""
        self._again.append(segment)

    def arrived(self, segment: int, content: bytes) -> bool:
        """Keep a segment's content; false when it was there already."""
        if self._has(segment) or not self._exists(segment):
            return False
        self._early[segment] = content
        return True

    def in_order(self) -> list[bytes]:
        """The contents that follow what was given out before, without a gap."""
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
