"""Byte streams between the hosts of a simulation, as TCP carries them."""

from __future__ import annotations

import asyncio
import itertools
import math
from itertools import pairwise

from innet._native import _core
from innet.errors import SimulationError
from innet.lab.simulation.network import SimulatedNetwork
from innet.topology.routes import Routes

_HEADER_BYTES = 40
"""IPv4 and TCP headers, which the MTU has to hold beside a segment."""
MAX_WINDOW_BYTES = 6 << 20
"""Of a receiver: Linux's default (``net.ipv4.tcp_rmem``)."""
MIN_RTO_S = 0.2
"""Linux's shortest retransmission timeout."""


class Stream:
    """One direction of an established TCP connection; what it carries are lengths, not bytes.

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
        """Send ``size_bytes`` more; how many bytes that makes since the stream began.

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
            SimulationError: one of them is no host, or they are the same, or ``congestion`` is
                unknown.
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
        """Segments so far that were sent again."""
        statuses = (self.native.stream_status(number) for number in range(self._opened))
        return int(sum(status["retransmissions"] for status in statuses))

    async def watch(self, number: int, size_bytes: int) -> None:
        """Wait until that many bytes of a stream have arrived."""
        token = next(self._tokens)
        future = self._waiting[token] = asyncio.get_running_loop().create_future()
        self.native.watch_stream(number, size_bytes, token)
        try:
            await future
        finally:
            self._waiting.pop(token, None)

    def deliver(self) -> None:
        """Wake those whose bytes have arrived."""
        for token in self.native.take_arrived():
            future = self._waiting.get(token)
            if future is not None and not future.done():
                future.set_result(None)

    def check(self, source: str, to: str, congestion: str) -> None:
        """Whether such a stream can be opened; raises as :meth:`open` does."""
        self.require_host(source)
        self.require_host(to)
        if source == to:
            raise SimulationError(f"a stream from {source} to itself crosses no link; name another")
        if congestion not in ("cubic", "reno"):
            raise SimulationError(
                f"unknown congestion control {congestion!r}; known are cubic and reno"
            )

    def require_host(self, name: str) -> None:
        """See to it that ``name`` is a host.

        Raises:
            SimulationError: it is not.
        """
        topology = self._network.topology
        if name not in topology.nodes or topology.nodes[name].kind != "host":
            raise SimulationError(
                f"{name!r} is no host of {topology.name}; its hosts: {', '.join(topology.hosts)}"
            )
