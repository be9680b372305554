"""Observes a run at several times, and compares the looks."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

from innet.cluster.emulation.kernel_network import KernelCounters
from innet.cluster.emulation.runs import RunRecord
from innet.cluster.run_state import NodeCondition
from innet.cluster.run_status import ANSWER_TIMEOUT_S, RunReader, RunStatus
from innet.topology import Link, Topology, load_topology
from innet.topology.routes import ends_of


@dataclass(frozen=True)
class Look:
    """A run at one moment.

    Attributes:
        status: the answers of all running nodes, and the states of all.
        asked_at_s: Unix time before the requests.
        answered_at_s: Unix time after all answers.
    """

    status: RunStatus
    asked_at_s: float = 0.0
    answered_at_s: float = 0.0

    @cached_property
    def kernel(self) -> Mapping[tuple[str, str], KernelCounters]:
        """The kernel's counters by direction, in ``netns`` mode."""
        return {(e.link.node, e.link.peer): e.counters for e in self.status.kernel_links}


@dataclass(frozen=True)
class NodePair:
    """The two answers of one node."""

    name: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    @property
    def span_s(self) -> float:
        """Time between the answers, by the node's own monotonic clock."""
        return float(self.after["uptime_s"] - self.before["uptime_s"])

    @cached_property
    def faces(self) -> Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """The face towards each peer, in both readings."""
        before = {face["peer"]: face for face in self.before["links"]}
        return {face["peer"]: (before[face["peer"]], face) for face in self.after["links"]}

    def grown(self, table: str, counter: str) -> int:
        """Growth of a counter of ``node``, ``reducer`` or ``endpoint``."""
        return int(self.after[table][counter] - self.before[table][counter])

    @property
    def asked(self) -> int:
        """Interests that the node's applications sent."""
        return self.grown("endpoint", "interests_expressed")

    @property
    def repeated(self) -> int:
        """Interests that it sent again."""
        counters = ("retransmissions_by_gap", "retransmissions_by_timeout")
        return sum(self.grown("endpoint", counter) for counter in counters)


@dataclass(frozen=True)
class Passage:
    """Packets of one direction of a link between two looks, at moments that compare.

    The two ends are read at different moments. At the first of these looks the receiver was read
    before the sender, and at the second after it: of the packets that were sent between the two
    readings of the sender, the receiver has counted all that were not lost, apart from those that
    are under way.

    Attributes:
        span_s: time between the two readings of the sender.
        sent: packets.
        datagrams: that they took at least; a segment of a sum takes several.
        missing: of the packets, those that were not received, and that no queue has dropped.
        under_way: packets that wait in the sender, and that the link and its queue hold at most.
    """

    span_s: float
    sent: int
    datagrams: int
    missing: int
    under_way: int


@dataclass(frozen=True)
class LinkPair:
    """One direction of a link, seen twice.

    Attributes:
        node: its sender.
        peer: its receiver.
        link: of the topology.
        span_s: time between the two looks.
        sent_bytes: bytes that left the queue meanwhile.
        dropped_queue: packets that the full queue dropped meanwhile.
        dropped_loss: packets that the link lost meanwhile.
        depths_bytes: of the queue, at the two moments.
        packets_out: Interests and Data that the node sent meanwhile.
        passage: what arrived of what was sent; ``None``: unknown.
        refused_sends: datagrams that the sender's kernel did not take meanwhile.
        malformed_in: malformed packets that the peer received from this link.
        invalid_in: packets with an invalid signature that the peer received from this link.
    """

    node: str
    peer: str
    link: Link
    span_s: float
    sent_bytes: int
    dropped_queue: int
    dropped_loss: int
    depths_bytes: tuple[int, int]
    packets_out: int
    passage: Passage | None
    refused_sends: int = 0
    malformed_in: int = 0
    invalid_in: int = 0

    def __str__(self) -> str:
        return f"{self.node}→{self.peer}"

    @property
    def sent_bps(self) -> float:
        """Bits per second that the link carried."""
        return 8 * self.sent_bytes / self.span_s


@dataclass(frozen=True)
class Observation:
    """Two looks at a run, and its topology.

    Attributes:
        third: another look, before the two or between them. From one look to the next,
            :class:`RunObserver` tells the losses of half of the directions.
    """

    topology: Topology
    before: Look
    after: Look
    third: Look | None = None

    def nodes(self) -> tuple[NodePair, ...]:
        """The nodes whose process answered both times, without those that are starting."""
        return self._nodes

    @cached_property
    def _nodes(self) -> tuple[NodePair, ...]:
        starting = self.starting()
        pairs = _answers(self.before, self.after)
        return tuple(pair for pair in pairs if pair.name not in starting)

    def starting(self) -> frozenset[str]:
        """Nodes that run, and do not answer yet or wait for each other, which is no problem.

        Those that take longer than :data:`STARTING_S` are checked as all others.
        """
        return frozenset(self.after.status.state.in_state("starting"))

    def lasting(self) -> dict[str, NodeCondition]:
        """The nodes whose state was the same at both looks, and is neither ``up`` nor ``off``."""
        before, after = self.before.status.state.nodes, self.after.status.state.nodes
        return {
            name: node
            for name, node in after.items()
            if node.state not in ("up", "off") and before.get(name, node).state == node.state
        }

    def links(self) -> tuple[LinkPair, ...]:
        """Each direction of each link whose sender answered both times; none of a cut link."""
        return self._links

    @cached_property
    def _links(self) -> tuple[LinkPair, ...]:
        return tuple(self._each_link())

    def _each_link(self) -> Iterator[LinkPair]:
        nodes = {pair.name: pair for pair in self.nodes()}
        for link in self.topology.links:
            if self.is_cut(link):
                continue
            for near, far in ((link.a, link.b), (link.b, link.a)):
                if near.node in nodes:
                    yield self._link(link, nodes[near.node], near.node, far.node, nodes)

    def is_cut(self, link: Link) -> bool:
        """Whether both ends, the kernel or the controller report that a link carries nothing."""
        return ends_of(*link.nodes) in self.after.status.state.cut

    def _link(
        self, link: Link, node: NodePair, near: str, far: str, nodes: Mapping[str, NodePair]
    ) -> LinkPair:
        before, after = node.faces[far]
        port_before, port_after = before["port"], after["port"]
        sent = port_after["sent_bytes"] - port_before["sent_bytes"]
        depths = (port_before["depth_bytes"], port_after["depth_bytes"])
        kernel = (self.before.kernel.get((near, far)), self.after.kernel.get((near, far)))
        if kernel[0] is not None and kernel[1] is not None:
            sent = kernel[1].bytes - kernel[0].bytes
            depths = (kernel[0].backlog_bytes, kernel[1].backlog_bytes)
        elif not sent:  # a link without a shape has no port model either
            sent = after["bytes_out"] - before["bytes_out"]
        peer = nodes.get(far)
        peer_faces = None if peer is None else peer.faces[near]
        return LinkPair(
            node=near,
            peer=far,
            link=link,
            span_s=node.span_s,
            sent_bytes=sent,
            dropped_queue=_dropped(node, far, self.before, self.after),
            dropped_loss=port_after["dropped_loss"] - port_before["dropped_loss"],
            depths_bytes=depths,
            packets_out=_packets(after, "out") - _packets(before, "out"),
            passage=self._passage(link, near, far),
            refused_sends=after["send_errors"] - before["send_errors"],
            malformed_in=0 if peer_faces is None else _grown(peer_faces, "malformed_in"),
            invalid_in=0 if peer_faces is None else _grown(peer_faces, "invalid_signature_in"),
        )

    def _passage(self, link: Link, near: str, far: str) -> Passage | None:
        """The latest one that two looks in a row show."""
        return next(
            (
                _passage_between(link, pairs[near], pairs[far], looks)
                for looks, pairs in self._steps
                if near in pairs and far in pairs and _compares(near, far, looks)
            ),
            None,
        )

    @cached_property
    def _steps(self) -> list[tuple[tuple[Look, Look], dict[str, NodePair]]]:
        """Each two looks in a row, the latest first, with the nodes that answered both times."""
        looks = [look for look in (self.third, self.before, self.after) if look is not None]
        looks.sort(key=lambda look: look.asked_at_s)
        steps = [(pair, {n.name: n for n in _answers(*pair)}) for pair in pairwise(looks)]
        return steps[::-1]


_LEAST_SPAN_S = 1e-3
"""Between two answers: rates over less say nothing."""


def _answers(before: Look, after: Look) -> Iterator[NodePair]:
    """The nodes whose process answered both times."""
    for name, answer in after.status.nodes.items():
        earlier = before.status.nodes.get(name)
        if earlier is not None and answer["uptime_s"] - earlier["uptime_s"] >= _LEAST_SPAN_S:
            yield NodePair(name, earlier, answer)


def _compares(near: str, far: str, looks: tuple[Look, Look]) -> bool:
    """Whether ``far`` was certainly read before ``near`` at the first look, and after it then."""
    first, second = (look.status.read_at for look in looks)
    if not all(node in read_at for node in (near, far) for read_at in (first, second)):
        return False
    return first[far][1] <= first[near][0] and second[near][1] <= second[far][0]


def _passage_between(
    link: Link, sender: NodePair, receiver: NodePair, looks: tuple[Look, Look]
) -> Passage:
    out, into = sender.faces[receiver.name], receiver.faces[sender.name]
    sent = _packets(out[1], "out") - _packets(out[0], "out")
    received = _packets(into[1], "in") - _packets(into[0], "in")
    sent_bytes = _grown(out, "bytes_out")
    bytes_each = max(1.0, sent_bytes / max(1, sent))
    held_bytes = link.queue_bytes + (link.rate_bps or 0.0) / 8 * link.delay_s
    return Passage(
        span_s=sender.span_s,
        sent=sent,
        datagrams=max(sent, sent_bytes // link.mtu_bytes),
        missing=max(0, sent - received - _dropped(sender, receiver.name, *looks)),
        under_way=math.ceil(held_bytes / bytes_each) + out[1]["backlog_packets"],
    )


def _dropped(node: NodePair, far: str, before: Look, after: Look) -> int:
    """Packets that the full queue towards ``far`` dropped between two looks."""
    kernel = (before.kernel.get((node.name, far)), after.kernel.get((node.name, far)))
    if kernel[0] is not None and kernel[1] is not None:
        return kernel[1].drops - kernel[0].drops
    earlier, now = node.faces[far]
    return _grown((earlier["port"], now["port"]), "dropped_queue")


def _packets(face: Mapping[str, Any], direction: str) -> int:
    return int(face[f"interests_{direction}"] + face[f"data_{direction}"])


def _grown(faces: tuple[Mapping[str, Any], Mapping[str, Any]], counter: str) -> int:
    return int(faces[1][counter] - faces[0][counter])


def observe(record: RunRecord, interval_s: float = 1.0) -> Observation:
    """Look at a run twice; blocks for ``interval_s`` and the time of the answers."""
    record.require_up()
    topology = load_topology(str(record.topology_path))
    with RunObserver(topology) as observer:
        first = observer.look(record)
        time.sleep(interval_s / 2)
        middle = observer.look(record)
        time.sleep(interval_s / 2)
        return Observation(topology, before=first, after=observer.look(record), third=middle)


class RunObserver:
    """Looks at a run again and again. Blocking; for one thread at a time.

    Neighbours are read one after the other, and in the opposite order at the next look: see
    :class:`Passage`.
    """

    def __init__(self, topology: Topology) -> None:
        self._reader = RunReader(with_rules=False)  # no check reads them
        self._phases = reading_phases(topology)
        self._neighbours = _neighbours(topology)

    def look(self, record: RunRecord, timeout_s: float = ANSWER_TIMEOUT_S) -> Look:
        """Look once; blocks until the nodes have answered, or for ``timeout_s``."""
        asked_at_s = time.time()
        status = self._reader.read(record, timeout_s, self._phases)
        answered_at_s = time.time()
        self._drop_without_links(status)
        self._phases.reverse()
        return Look(status, asked_at_s, answered_at_s)

    def _drop_without_links(self, status: RunStatus) -> None:
        """Take a node that reports no link to a neighbour for malformed: checks look for it."""
        for node, answer in list(status.nodes.items()):
            peers = {face["peer"] for face in answer["links"]}
            if lacks := self._neighbours.get(node, set()) - peers:
                del status.nodes[node]
                status.malformed.add(node)
                status.silent[node] = (
                    f"{node} sends a malformed status: it has no link to {min(lacks)}"
                )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()


_MOST_PHASES = 4


def reading_phases(topology: Topology) -> list[list[str]]:
    """The nodes in groups without links within, apart from the last of many groups."""
    neighbours = _neighbours(topology)
    phases: list[list[str]] = []
    phase_of: dict[str, int] = {}
    for name in topology.nodes:
        taken = {phase_of[peer] for peer in neighbours[name] if peer in phase_of}
        phase = next(n for n in range(_MOST_PHASES) if n not in taken or n == _MOST_PHASES - 1)
        if phase == len(phases):
            phases.append([])
        phases[phase].append(name)
        phase_of[name] = phase
    return phases


def _neighbours(topology: Topology) -> dict[str, set[str]]:
    neighbours: dict[str, set[str]] = {name: set() for name in topology.nodes}
    for link in topology.links:
        near, far = link.nodes
        neighbours[near].add(far)
        neighbours[far].add(near)
    return neighbours
