"""Durations counted by class, as histograms of a metric have them."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

DURATION_BOUNDS_S: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Upper bounds of the classes of durations; one class more has what is longer."""


@dataclass
class Durations:
    """How long something took, by class.

    Attributes:
        counts: durations in each class: up to each of :data:`DURATION_BOUNDS_S`, and longer.
        sum_s: of all durations.
    """

    counts: list[int] = field(default_factory=lambda: [0] * (len(DURATION_BOUNDS_S) + 1))
    sum_s: float = 0.0

    def add(self, duration_s: float) -> None:
        """Count one more."""
        self.counts[bisect_left(DURATION_BOUNDS_S, duration_s)] += 1
        self.sum_s += duration_s
