"""What the links and nodes counted: before and after turns, and often during one of them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

from innet.cluster.emulation.network import Network
from innet.lab.compare.measurement import LinkTraffic, QueueSeries
from innet.topology import Topology

if TYPE_CHECKING:
    from innet.cluster.launch.session import Session

DirectedLink = tuple[str, str]
"""From node, to node."""

QUEUE_PERIOD_S = 0.02
"""How often the queues are looked at during an observed turn."""


@dataclass(frozen=True)
class LinkReading:
    """One direction of a link at one moment."""

    sent_bytes: int
    drops: int
    depth_bytes: int


@dataclass(frozen=True)
class NodeReading:
    """Counters of all nodes of innet since their start."""

    retransmissions: int = 0
    switch_cpu_s: float = 0.0


class Probe(Protocol):
    """Reads the counters of a running network."""

    async def links(self) -> dict[DirectedLink, LinkReading]:
        """Every direction of every link."""
        ...

    async def nodes(self) -> NodeReading:
        """The nodes of innet."""
        ...


class KernelProbe:
    """Links of ``netns`` mode: the kernel counts them, whoever sends."""

    def __init__(self, network: Network, session: Session | None = None) -> None:
        """Without a ``session``, no node of innet runs and there is nothing to count in them."""
        self._network = network
        self._session = session

    async def links(self) -> dict[DirectedLink, LinkReading]:
        """The queueing disciplines' counters, of Ethernet frames."""
        counters = await self._network.link_counters()
        return {
            (link.node, link.peer): LinkReading(count.bytes, count.drops, count.backlog_bytes)
            for link, count in counters.items()
        }

    async def nodes(self) -> NodeReading:
        """The nodes' own counters."""
        return NodeReading() if self._session is None else read_nodes(await self._session.status())


class PortProbe:
    """Links of ``local`` mode: each node counts its own egresses."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def links(self) -> dict[DirectedLink, LinkReading]:
        """The port models' counters, of UDP payloads, and of links without a shape the faces'."""
        return read_ports(await self._session.status())

    async def nodes(self) -> NodeReading:
        """The nodes' own counters."""
        return read_nodes(await self._session.status())


def read_ports(status: dict[str, dict[str, Any]]) -> dict[DirectedLink, LinkReading]:
    """The egress ports in what :meth:`Session.status` answers.

    A link without a shape has no port: there, what the node has given it has left.
    """
    return {
        (node, link["peer"]): LinkReading(
            sent_bytes=link["port"]["sent_bytes"]
            if link["port"]["enqueued"]
            else link["bytes_out"],
            drops=link["port"]["dropped_queue"],
            depth_bytes=link["port"]["depth_bytes"],
        )
        for node, answer in status.items()
        for link in answer["links"]
    }


def read_nodes(status: dict[str, dict[str, Any]]) -> NodeReading:
    """The sums over the nodes in what :meth:`Session.status` answers."""
    return NodeReading(
        retransmissions=sum(
            answer["endpoint"]["retransmissions_by_gap"]
            + answer["endpoint"]["retransmissions_by_timeout"]
            + answer["reducer"]["operand_retransmissions"]
            for answer in status.values()
        ),
        switch_cpu_s=sum(a["cpu_s"] for a in status.values() if a["kind"] == "switch"),
    )


@dataclass
class TrafficTotal:
    """Adds up what the links carried in the timed turns of one method at one size."""

    sent_bytes: dict[DirectedLink, int] = field(default_factory=dict)
    drops: dict[DirectedLink, int] = field(default_factory=dict)

    def add(
        self, before: dict[DirectedLink, LinkReading], after: dict[DirectedLink, LinkReading]
    ) -> None:
        """Count one turn."""
        for link in before.keys() & after.keys():
            sent = after[link].sent_bytes - before[link].sent_bytes
            drops = after[link].drops - before[link].drops
            self.sent_bytes[link] = self.sent_bytes.get(link, 0) + sent
            self.drops[link] = self.drops.get(link, 0) + drops

    def per_operation(self, topology: Topology, operations: int) -> list[LinkTraffic]:
        """The traffic of each link, in the order of the links' names."""
        return [
            LinkTraffic(
                source=link[0],
                destination=link[1],
                rate_bps=topology.link_between(*link).rate_bps,
                bytes_per_operation=sent / operations,
                drops=self.drops[link],
            )
            for link, sent in sorted(self.sent_bytes.items())
        ]


class QueueWatch:
    """Looks at all queues again and again while its context lasts.

    Example::

        async with QueueWatch(probe) as watch:
            turn = await crew.take_turn(prepare, deadline_s=60)
        series = watch.deepest(turn.started_s)
    """

    def __init__(self, probe: Probe, period_s: float = QUEUE_PERIOD_S) -> None:
        self._probe = probe
        self._period_s = period_s
        self._readings: list[tuple[float, dict[DirectedLink, LinkReading]]] = []
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._read()
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._ended.set()
        await self._task

    def deepest(self, started_s: float, ended_s: float) -> QueueSeries | None:
        """The queue that was deepest between two moments of the monotonic clock.

        ``None`` when no packet was ever seen to wait.
        """
        if not self._readings:
            return None
        peaks: dict[DirectedLink, int] = {}
        for _, links in self._readings:
            for link, reading in links.items():
                peaks[link] = max(peaks.get(link, 0), reading.depth_bytes)
        deepest = max(sorted(peaks), key=lambda link: peaks[link], default=None)
        if deepest is None or peaks[deepest] == 0:
            return None
        series = [(at_s, links[deepest]) for at_s, links in self._readings if deepest in links]
        drops_before = series[0][1].drops
        within = [(at_s, reading) for at_s, reading in series if at_s <= ended_s + self._period_s]
        return QueueSeries(
            source=deepest[0],
            destination=deepest[1],
            time_s=[at_s - started_s for at_s, _ in within],
            depth_bytes=[reading.depth_bytes for _, reading in within],
            drops=[reading.drops - drops_before for _, reading in within],
        )

    async def _watch(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), self._period_s)
            await self._read()

    async def _read(self) -> None:
        at_s = time.monotonic()
        self._readings.append((at_s, await self._probe.links()))
