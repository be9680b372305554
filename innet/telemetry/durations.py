"""A histogram of durations for metrics."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

DURATION_BOUNDS_S: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Upper bounds of the buckets; one more bucket counts longer durations."""


@dataclass
class Durations:
    """A histogram of durations.

    Attributes:
        counts: durations in each bucket: up to each of :data:`DURATION_BOUNDS_S`, and longer.
        sum_s: sum of all durations.
    """

    counts: list[int] = field(default_factory=lambda: [0] * (len(DURATION_BOUNDS_S) + 1))
    sum_s: float = 0.0

    def add(self, duration_s: float) -> None:
        """Count one more."""
        self.counts[bisect_left(DURATION_BOUNDS_S, duration_s)] += 1
        self.sum_s += duration_s
