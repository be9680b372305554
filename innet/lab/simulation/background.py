"""Traffic of others, which takes its part of the links."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Sequence
from typing import Literal, get_args

from innet.errors import SimulationError
from innet.lab.simulation.streams import Streams

Distribution = Literal["constant", "exponential", "pareto"]
"""Of the sizes of flows."""

_PARETO_SHAPE = 1.5
_MOST_FLOWS_PER_S = 1e6
"""More of them are no traffic of single flows, and time would hardly pass."""


class BackgroundTraffic:
    """Flows between hosts, of random sizes at random times.

    They come as a Poisson process, whose rate follows from the mean of their sizes: that gives the
    wanted rate on the average, as long as the network can carry it. Each is a stream of its own,
    beginning with slow start.

    Attributes:
        flows: how many have begun.
        offered_bytes: the sum of their sizes.
    """

    def __init__(
        self,
        streams: Streams,
        sources: Sequence[str],
        destinations: Sequence[str],
        *,
        rate_bps: float,
        flow_bytes: float,
        distribution: Distribution,
        seed: int,
        congestion: str,
    ) -> None:
        """
        Args:
            streams: of the simulation.
            sources: hosts that send; one is drawn for each flow.
            destinations: hosts that receive, likewise.
            rate_bps: offered on the average, by all flows together.
            flow_bytes: mean size of a flow.
            distribution: of the sizes.
            seed: decides sizes, times and ends.
            congestion: of the streams.

        Raises:
            SimulationError: a rate or size is not above 0, the distribution is unknown, or the ends
                are no two hosts.
        """
        if not (rate_bps > 0 and flow_bytes > 0):
            raise SimulationError(
                f"background traffic of {rate_bps:g} bit/s in flows of {flow_bytes:g} bytes is "
                "none; both must be above 0"
            )
        if rate_bps > _MOST_FLOWS_PER_S * flow_bytes * 8:
            raise SimulationError(
                f"background traffic of {rate_bps:g} bit/s in flows of {flow_bytes:g} bytes begins "
                f"more than {_MOST_FLOWS_PER_S:g} flows a second; give larger flows or a lower rate"
            )
        if distribution not in get_args(Distribution):
            raise SimulationError(
                f"unknown distribution {distribution!r}; known are "
                f"{', '.join(get_args(Distribution))}"
            )
        self._streams = streams
        self._sources = tuple(sources)
        self._destinations = tuple(destinations)
        self._mean_gap_s = flow_bytes * 8 / rate_bps
        self._flow_bytes = flow_bytes
        self._distribution = distribution
        self._congestion = congestion
        self._random = random.Random(seed)
        self.flows = 0
        self.offered_bytes = 0
        self._require_ends()

    async def run(self, at_s: float = 0.0, until_s: float = math.inf) -> None:
        """Begin one flow after the other, between two moments of virtual time."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(at_s - loop.time())
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self._mean_gap_s))
            if loop.time() >= until_s:
                return
            self._begin()

    def _begin(self) -> None:
        source, to = self._drawn_ends()
        size_bytes = max(1, round(self._drawn_bytes()))
        self._streams.open(source, to, self._congestion).write(size_bytes)
        self.flows += 1
        self.offered_bytes += size_bytes

    def _drawn_ends(self) -> tuple[str, str]:
        while True:
            ends = self._random.choice(self._sources), self._random.choice(self._destinations)
            if ends[0] != ends[1]:
                return ends

    def _drawn_bytes(self) -> float:
        if self._distribution == "exponential":
            return self._random.expovariate(1 / self._flow_bytes)
        if self._distribution == "pareto":
            least_bytes = self._flow_bytes * (_PARETO_SHAPE - 1) / _PARETO_SHAPE
            return least_bytes * self._random.paretovariate(_PARETO_SHAPE)
        return self._flow_bytes

    def _require_ends(self) -> None:
        """All are hosts, and there are two that differ."""
        for host in {*self._sources, *self._destinations}:
            self._streams.require_host(host)
        pairs = ((source, to) for source in self._sources for to in self._destinations)
        alike = self._sources[0], self._destinations[0]
        pair = next((pair for pair in pairs if pair[0] != pair[1]), alike)
        self._streams.check(*pair, self._congestion)
