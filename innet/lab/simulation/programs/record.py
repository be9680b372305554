"""When the operations of a job began and ended."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Record:
    """Fills while a job runs; what it says is true at any time.

    Attributes:
        ranks: that must have ended an operation before it counts.
        untimed: operations at the beginning that warm up.
        correct: whether every result so far was right.
        started_s: when the first rank began each operation, in virtual time.
    """

    ranks: int
    untimed: int = 0
    correct: bool = True
    started_s: list[float] = field(default_factory=list)
    _ended_s: list[float] = field(default_factory=list)
    _left: list[int] = field(default_factory=list)

    def begin(self, operation: int, now_s: float) -> None:
        """A rank begins an operation; they have numbers from 0."""
        if operation == len(self.started_s):
            self.started_s.append(now_s)
            self._ended_s.append(now_s)
            self._left.append(self.ranks)

    def end(self, operation: int, now_s: float, correct: bool = True) -> None:
        """A rank has ended it, with or without the right result."""
        self.correct &= correct
        self._left[operation] -= 1
        self._ended_s[operation] = now_s

    @property
    def completed(self) -> int:
        """Operations that all ranks have ended, the untimed ones included."""
        return sum(left == 0 for left in self._left)

    @property
    def spans_s(self) -> list[tuple[float, float]]:
        """Beginning and end of each completed operation that is timed."""
        spans = zip(self.started_s, self._ended_s, self._left, strict=True)
        return [(begun, ended) for begun, ended, left in spans if left == 0][self.untimed :]
