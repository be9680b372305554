"""How long computing takes on each rank: distributions, and who is slow."""

from __future__ import annotations

import math
import random
from typing import Literal

from pydantic import Field

from innet.topology.specification import Specification, optional

Distribution = Literal["constant", "uniform", "exponential", "lognormal"]


class ComputeSpecification(Specification):
    """Times of computing: those of the workload, times a number drawn for each rank and step.

    The number is 1 in the mean, whatever the distribution:

    * ``constant``: always 1;
    * ``uniform``: between 1 - spread and 1 + spread;
    * ``exponential``: 1 - spread, and an exponential part with the mean ``spread``;
    * ``lognormal``: its logarithm is normal with the standard deviation ``spread``.
    """

    distribution: Distribution = Field(default="constant", description="of each rank and step")
    spread: float = Field(default=0.1, ge=0, le=1, description="how wide; 0 is constant")
    slow: dict[str, float] = optional("hosts whose computing takes so many times as long")

    def factor(self, host: str, rank: int, step: int, seed: int) -> float:
        """By what all times of a step are multiplied there."""
        slow = (self.slow or {}).get(host, 1.0)
        # A source of its own for each: what one rank draws changes nothing for others.
        source = random.Random(f"{seed}/compute/{rank}/{step}")
        return slow * self._drawn(source)

    def _drawn(self, source: random.Random) -> float:
        if self.distribution == "uniform":
            return 1.0 + self.spread * (2.0 * source.random() - 1.0)
        if self.distribution == "exponential":
            return 1.0 - self.spread + self.spread * source.expovariate(1.0)
        if self.distribution == "lognormal":
            return math.exp(self.spread * source.gauss(0.0, 1.0) - self.spread**2 / 2)
        return 1.0
