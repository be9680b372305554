"""TCP streams between the hosts of a simulation, and background traffic made of them."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import get_args

from innet._native import _core
from innet.errors import SimulationError
from innet.lab.simulation.network import SimulatedNetwork
from innet.lab.workload.document import FlowDistribution
from innet.topology.routes import Routes

_HEADER_BYTES = 40
"""IPv4 and TCP headers, which the MTU has to hold beside a segment."""
MAX_WINDOW_BYTES = 6 << 20
"""Largest window of a receiver: Linux's default (``net.ipv4.tcp_rmem``)."""
MIN_RTO_S = 0.2
"""Linux's shortest retransmission timeout."""


class Stream:
    """One direction of an established TCP connection, which carries lengths without contents.

    Attributes:
        source: the host that sends.
        to: the host that receives.
    """

    def __init__(self, streams: Streams, number: int, source: str, to: str) -> None:
        self.source = source
        self.to = to
        self._streams = streams
        self._number = number
        self._written_bytes = 0

    def write(self, size_bytes: int) -> int:
        """Send ``size_bytes`` more; returns the bytes sent since the stream began.

        Raises:
            SimulationError: ``size_bytes`` is negative.
        """
        if size_bytes < 0:
            raise SimulationError(f"a stream cannot send {size_bytes} bytes; give 0 or more")
        self._streams.native.write_stream(self._number, size_bytes)
        self._written_bytes += size_bytes
        return self._written_bytes

    async def send(self, size_bytes: int) -> None:
        """Send ``size_bytes`` more; returns when the last of them has arrived."""
        await self.arrived(self.write(size_bytes))

    async def arrived(self, size_bytes: int) -> None:
        """Wait until the first ``size_bytes`` since the stream began have arrived."""
        await self._streams.watch(self._number, size_bytes)

    def status(self) -> dict[str, float]:
        """Counters: bytes written, acknowledged and arrived, segments, retransmissions, window."""
        return self._streams.native.stream_status(self._number)


class Streams:
    """All streams of a simulation."""

    def __init__(self, network: SimulatedNetwork) -> None:
        self.native: _core.Simulation = network.native
        self._network = network
        self._routes = Routes(network.topology)
        self._opened = 0
        self._tokens = itertools.count()
        self._waiting: dict[int, asyncio.Future[None]] = {}

    def open(self, source: str, to: str, congestion: str) -> Stream:
        """A stream along the routes of the topology.

        Raises:
            SimulationError: the ends are not two different hosts, or ``congestion`` is unknown.
        """
        self.check(source, to, congestion)
        forth, back = self._routes.path(source, to), self._routes.path(to, source)
        topology = self._network.topology
        links = [topology.link_between(u, v) for u, v in pairwise(forth)]
        mtu_bytes = min(link.mtu_bytes for link in links)
        rate_bps = min((link.rate_bps for link in links if link.rate_bps), default=math.inf)
        number = self.native.open_stream(
            [self._network.direction(u, v) for u, v in pairwise(forth)],
            [self._network.direction(u, v) for u, v in pairwise(back)],
            segment_bytes=mtu_bytes - _HEADER_BYTES,
            congestion=congestion,
            max_window_bytes=MAX_WINDOW_BYTES,
            min_rto_s=MIN_RTO_S,
            # Up to a packet's time on the slowest link: enough to keep flows out of step.
            max_processing_s=mtu_bytes * 8 / rate_bps,
            seed=self._network.number("stream", self._opened),
        )
        self._opened = number + 1
        return Stream(self, number, source, to)

    def retransmissions(self) -> int:
        """Retransmitted segments of all streams."""
        statuses = (self.native.stream_status(number) for number in range(self._opened))
        return int(sum(status["retransmissions"] for status in statuses))

    async def watch(self, number: int, size_bytes: int) -> None:
        """Wait until ``size_bytes`` bytes of a stream have arrived."""
        token = next(self._tokens)
        future = self._waiting[token] = asyncio.get_running_loop().create_future()
        self.native.watch_stream(number, size_bytes, token)
        try:
            await future
        finally:
            self._waiting.pop(token, None)

    def deliver(self) -> None:
        """Wake the waiters whose bytes have arrived."""
        for token in self.native.take_arrived():
            future = self._waiting.get(token)
            if future is not None and not future.done():
                future.set_result(None)

    def check(self, source: str, to: str, congestion: str) -> None:
        """Check the arguments of :meth:`open`, with its errors."""
        self.require_host(source)
        self.require_host(to)
        if source == to:
            raise SimulationError(f"a stream from {source} to itself crosses no link; name another")
        if congestion not in ("cubic", "reno"):
            raise SimulationError(
                f"unknown congestion control {congestion!r}; known are cubic and reno"
            )

    def require_host(self, name: str) -> None:
        """Check that ``name`` is a host.

        Raises:
            SimulationError: it is not.
        """
        topology = self._network.topology
        if name not in topology.nodes or topology.nodes[name].kind != "host":
            raise SimulationError(
                f"{name!r} is not a host of {topology.name}; its hosts: {', '.join(topology.hosts)}"
            )


_PARETO_SHAPE = 1.5
_MOST_FLOWS_PER_S = 1e6
"""With more flows per second, a simulation would hardly advance."""


@dataclass(frozen=True)
class FlowOptions:
    """Properties of background flows.

    Attributes:
        rate_bps: mean rate offered by all flows together.
        size_bytes: mean size of a flow.
        distribution: of the sizes.
        congestion: control of their streams.
    """

    rate_bps: float
    size_bytes: float
    distribution: FlowDistribution
    congestion: str

    def __post_init__(self) -> None:
        """
        Raises:
            SimulationError: a rate or size is not above 0, or the distribution is unknown.
        """
        what = (
            f"background traffic of {self.rate_bps:g} bit/s in flows of {self.size_bytes:g} bytes"
        )
        if not (self.rate_bps > 0 and self.size_bytes > 0):
            raise SimulationError(f"{what} is not possible; both must be above 0")
        if self.rate_bps > _MOST_FLOWS_PER_S * self.size_bytes * 8:
            raise SimulationError(
                f"{what} begins more than {_MOST_FLOWS_PER_S:g} flows a second; give larger flows "
                "or a lower rate"
            )
        if self.distribution not in get_args(FlowDistribution):
            raise SimulationError(
                f"unknown distribution {self.distribution!r}; known are "
                f"{', '.join(get_args(FlowDistribution))}"
            )

    def drawn_bytes(self, source: random.Random) -> float:
        """The size of a flow."""
        if self.distribution == "exponential":
            return source.expovariate(1 / self.size_bytes)
        if self.distribution == "pareto":
            least_bytes = self.size_bytes * (_PARETO_SHAPE - 1) / _PARETO_SHAPE
            return least_bytes * source.paretovariate(_PARETO_SHAPE)
        return self.size_bytes


class BackgroundTraffic:
    """Flows between hosts, of random sizes at random times.

    They begin as a Poisson process, whose rate follows from the offered rate and the mean size.
    Each flow is a new stream, which begins with slow start.

    Attributes:
        flows: number of flows begun.
        offered_bytes: the sum of their sizes.
    """

    def __init__(
        self,
        streams: Streams,
        sources: Sequence[str],
        destinations: Sequence[str],
        options: FlowOptions,
        seed: int,
    ) -> None:
        """
        Args:
            streams: of the simulation.
            sources: hosts that send; one is drawn for each flow.
            destinations: hosts that receive, likewise.
            options: of the flows.
            seed: decides sizes, times and ends.

        Raises:
            SimulationError: the ends are not two different hosts.
        """
        self._streams = streams
        self._sources = tuple(sources)
        self._destinations = tuple(destinations)
        self._options = options
        self._mean_gap_s = options.size_bytes * 8 / options.rate_bps
        self._random = random.Random(seed)
        self.flows = 0
        self.offered_bytes = 0
        self._require_ends()

    async def run(self, at_s: float = 0.0, until_s: float = math.inf) -> None:
        """Begin one flow after the other, between two virtual times."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(at_s - loop.time())
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self._mean_gap_s))
            if loop.time() >= until_s:
                return
            self._begin()

    def _begin(self) -> None:
        source, to = self._drawn_ends()
        size_bytes = max(1, round(self._options.drawn_bytes(self._random)))
        self._streams.open(source, to, self._options.congestion).write(size_bytes)
        self.flows += 1
        self.offered_bytes += size_bytes

    def _drawn_ends(self) -> tuple[str, str]:
        while True:
            ends = self._random.choice(self._sources), self._random.choice(self._destinations)
            if ends[0] != ends[1]:
                return ends

    def _require_ends(self) -> None:
        """Check that all ends are hosts, and that two of them differ."""
        for host in {*self._sources, *self._destinations}:
            self._streams.require_host(host)
        pairs = ((source, to) for source in self._sources for to in self._destinations)
        alike = self._sources[0], self._destinations[0]
        pair = next((pair for pair in pairs if pair[0] != pair[1]), alike)
        self._streams.check(*pair, self._options.congestion)
