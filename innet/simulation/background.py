"""Traffic of others, which takes its part of the links."""

from __future__ import annotations

import asyncio

import numpy as np

from innet.errors import SimulationError
from innet.simulation.streams import Streams


class BackgroundTraffic:
    """Flows between two hosts, of random sizes at random times.

    They come as a Poisson process, and their sizes are exponentially distributed, which gives the
    wanted rate on the average, as long as the network can carry it. Each is a stream of its own,
    beginning with slow start.

    Attributes:
        flows: how many have begun.
        offered_bytes: the sum of their sizes.
    """

    def __init__(
        self,
        streams: Streams,
        ends: tuple[str, str],
        *,
        rate_bps: float,
        flow_bytes: float,
        seed: int,
        congestion: str,
    ) -> None:
        """
        Args:
            streams: of the simulation.
            ends: the sending and the receiving host.
            rate_bps: offered on the average.
            flow_bytes: mean size of a flow.
            seed: decides sizes and times.
            congestion: of the streams.

        Raises:
            SimulationError: a rate or size is not above 0, or an end is no host.
        """
        if rate_bps <= 0 or flow_bytes <= 0:
            raise SimulationError(
                f"background traffic of {rate_bps:g} bit/s in flows of {flow_bytes:g} bytes is "
                "none; both must be above 0"
            )
        self._streams = streams
        self._ends = ends
        self._mean_gap_s = flow_bytes * 8 / rate_bps
        self._flow_bytes = flow_bytes
        self._congestion = congestion
        self._random = np.random.default_rng(seed)
        self.flows = 0
        self.offered_bytes = 0
        streams.check(*ends, congestion)

    async def run(self) -> None:
        """Begin one flow after the other, for ever."""
        while True:
            await asyncio.sleep(float(self._random.exponential(self._mean_gap_s)))
            size_bytes = max(1, round(float(self._random.exponential(self._flow_bytes))))
            self._streams.open(*self._ends, self._congestion).write(size_bytes)
            self.flows += 1
            self.offered_bytes += size_bytes
