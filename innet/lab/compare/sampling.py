"""Reads the counters of links and nodes before and after turns, and queues during a turn."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from innet.cluster.emulation.network import Network
from innet.lab.compare.measurement import LinkTraffic, QueueSeries
from innet.plans.bounds import DirectedLink
from innet.topology import Topology

if TYPE_CHECKING:
    from innet.cluster.launch.session import Session

QUEUE_PERIOD_S = 0.02
"""How often the queues are read during an observed turn."""

_MOST_READINGS = 1024
_LEAST_READINGS = 128
_MOST_VALUES = 1 << 20
"""Most values of all readings together: a large network has fewer readings."""


@dataclass(frozen=True)
class LinkReading:
    """One direction of a link at one moment."""

    sent_bytes: int
    drops: int
    depth_bytes: int


_NOTHING = LinkReading(0, 0, 0)
_SENT_PACKETS = ("interests_out", "data_out", "nacks_out", "holds_out")


@dataclass(frozen=True)
class NodeReading:
    """Counters of all nodes of innet since their start.

    Attributes:
        packets: that the nodes have sent on links.
        calls: system calls for that, and to receive them.
    """

    retransmissions: int = 0
    packets: int = 0
    calls: int = 0
    switch_cpu_s: float = 0.0


class Probe:
    """Reads the counters of a running network."""

    def __init__(self, network: Network, session: Session | None) -> None:
        """Without a ``session`` only foreign programs run, and no node of innet counts anything."""
        self._network = network
        self._session = session

    async def links(self) -> dict[DirectedLink, LinkReading]:
        """Every direction of every link.

        In ``netns`` mode the kernel counts the Ethernet frames of all programs; in ``local`` mode
        each node counts the UDP payloads that it sends.
        """
        if self._network.mode == "local":
            return {} if self._session is None else read_ports(await self._session.status())
        counters = await self._network.link_counters()
        return {
            (link.node, link.peer): LinkReading(count.bytes, count.drops, count.backlog_bytes)
            for link, count in counters.items()
        }

    async def nodes(self) -> NodeReading:
        """The nodes of innet."""
        return NodeReading() if self._session is None else read_nodes(await self._session.status())


def read_ports(status: dict[str, dict[str, Any]]) -> dict[DirectedLink, LinkReading]:
    """The egress ports in what :meth:`Session.status` answers.

    A link without a shape has no port: its face counts the bytes.
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
    links = [link for answer in status.values() for link in answer["links"]]
    return NodeReading(
        retransmissions=retransmissions(status),
        packets=sum(link[kind] for link in links for kind in _SENT_PACKETS),
        calls=sum(link["send_calls"] + link["receive_calls"] for link in links),
        switch_cpu_s=sum(a["cpu_s"] for a in status.values() if a["kind"] == "switch"),
    )


def retransmissions(status: Mapping[str, Mapping[str, Any]]) -> int:
    """Interests that the nodes have sent again."""
    return sum(
        answer["endpoint"]["retransmissions_by_gap"]
        + answer["endpoint"]["retransmissions_by_timeout"]
        + answer["reducer"]["operand_retransmissions"]
        for answer in status.values()
    )


def cache_hits(status: Mapping[str, Mapping[str, Any]], nodes: Iterable[str]) -> Counter[str]:
    """Answers of the content stores of ``nodes``; none of a node without a status."""
    return Counter({node: status[node]["node"]["cache_hits"] for node in nodes if node in status})


@dataclass
class TrafficTotal:
    """Adds up what the links carried in the timed turns of one method at one size."""

    sent_bytes: dict[DirectedLink, int] = field(default_factory=dict)
    drops: dict[DirectedLink, int] = field(default_factory=dict)

    def add(
        self, before: dict[DirectedLink, LinkReading], after: dict[DirectedLink, LinkReading]
    ) -> None:
        """Count one turn."""
        for link in sorted(before.keys() & after.keys()):
            first, last = before[link], after[link]
            self.count(link, last.sent_bytes - first.sent_bytes, last.drops - first.drops)

    def count(self, link: DirectedLink, sent_bytes: int, drops: int) -> None:
        """Add to the counters of one direction."""
        self.sent_bytes[link] = self.sent_bytes.get(link, 0) + sent_bytes
        self.drops[link] = self.drops.get(link, 0) + drops

    def per_operation(self, topology: Topology, operations: int) -> list[LinkTraffic]:
        """The traffic of each link, in the order in which the links were counted."""
        return [
            LinkTraffic(
                source=link[0],
                destination=link[1],
                rate_bps=topology.link_between(*link).rate_bps,
                bytes_per_operation=sent / operations,
                drops=self.drops[link],
            )
            for link, sent in self.sent_bytes.items()
        ]


class QueueSource(Protocol):
    """The queues of a network, and its clock."""

    @property
    def now_s(self) -> float:
        """The time of a reading."""
        ...

    @property
    def directions(self) -> Sequence[DirectedLink]:
        """The direction of each queue."""
        ...

    async def read_queues(self) -> Sequence[tuple[int, int]]:
        """Bytes that wait and packets dropped so far, of each direction."""
        ...


class ProbedQueues:
    """The queues of a running network, with times of the monotonic clock."""

    def __init__(
        self, read_links: Callable[[], Awaitable[Mapping[DirectedLink, LinkReading]]]
    ) -> None:
        """``read_links``: of a :class:`Probe`."""
        self.directions: Sequence[DirectedLink] = ()
        self._read_links = read_links

    @property
    def now_s(self) -> float:
        """The monotonic clock."""
        return time.monotonic()

    async def read_queues(self) -> Sequence[tuple[int, int]]:
        """The queues; empty for a direction whose node no longer answers."""
        links = await self._read_links()
        self.directions = self.directions or tuple(sorted(links))
        readings = (links.get(direction, _NOTHING) for direction in self.directions)
        return [(reading.depth_bytes, reading.drops) for reading in readings]


class QueueWatch:
    """Reads all queues at equal intervals while its context lasts.

    It drops every other reading and doubles the interval when there are too many, so that a watch
    of any duration keeps some hundred readings.

    Example::

        async with QueueWatch(ProbedQueues(probe.links)) as watch:
            turn = await team.take_turn(task, AllreduceResult, deadline_s=60)
        series = watch.deepest(turn.started_s, ended_s)
    """

    def __init__(self, source: QueueSource, period_s: float = QUEUE_PERIOD_S) -> None:
        self._source = source
        self._period_s = period_s
        self._readings: list[tuple[float, npt.NDArray[np.uint64]]] = []
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._ended.set()
        await self._task

    def deepest(
        self, started_s: float, ended_s: float, margin_s: float = 0.0
    ) -> QueueSeries | None:
        """The deepest queue between two times; ``None`` if no reading found a waiting packet.

        The series includes readings up to ``margin_s`` before and after.
        """
        first_s, last_s = started_s - margin_s, ended_s + margin_s
        within = [(at_s, read) for at_s, read in self._readings if first_s <= at_s <= last_s]
        if not within or not self._source.directions:
            return None
        queues = np.stack([read for _, read in within])  # by time, direction; depth and drops
        link = int(queues[:, :, 0].max(axis=0).argmax())
        if not queues[:, link, 0].any():
            return None
        source, destination = self._source.directions[link]
        return QueueSeries(
            source=source,
            destination=destination,
            time_s=[at_s - started_s for at_s, _ in within],
            depth_bytes=[int(depth) for depth in queues[:, link, 0]],
            drops=[int(drops - queues[0, link, 1]) for drops in queues[:, link, 1]],
        )

    async def _watch(self) -> None:
        is_last = False
        while True:
            at_s = self._source.now_s
            self._readings.append((at_s, np.array(await self._source.read_queues(), np.uint64)))
            if is_last:
                return
            values = _MOST_VALUES // max(1, len(self._source.directions))
            if len(self._readings) >= max(_LEAST_READINGS, min(_MOST_READINGS, values)):
                self._readings = self._readings[::2]
                self._period_s *= 2
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), self._period_s)
            is_last = self._ended.is_set()
