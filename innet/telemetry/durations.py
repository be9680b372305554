"""A histogram of durations for metrics."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import ClassVar, Final

DURATION_BOUNDS_S: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Upper bounds of the buckets; one more bucket counts longer durations."""

AGE_BOUNDS_S: Final = (1.0, 10.0, 60.0, 600.0, 3600.0, 21600.0, 86400.0)
"""Upper bounds of the buckets of ages."""


@dataclass
class Durations:
    """A histogram of durations.

    Attributes:
        counts: durations in each bucket: up to each of the bounds, and longer.
        sum_s: sum of all durations.
    """

    bounds_s: ClassVar[tuple[float, ...]] = DURATION_BOUNDS_S
    counts: list[int] = field(default_factory=list)
    sum_s: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds_s) + 1)

    def add(self, duration_s: float, count: int = 1) -> None:
        """Count so many more of one duration."""
        self.counts[bisect_left(self.bounds_s, duration_s)] += count
        self.sum_s += count * duration_s


class Ages(Durations):
    """A histogram of ages, up to each of :data:`AGE_BOUNDS_S`."""

    bounds_s = AGE_BOUNDS_S
