"""Two looks at a run, some time apart, and what lies between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from innet.cluster.emulation.link_counters import LinkCounters
from innet.cluster.launch.run_status import RunStatus
from innet.topology import Link, Topology

STARTING_S = 60.0
"""A worker that has not joined all its groups after that time hangs."""


@dataclass(frozen=True)
class ProcessState:
    """What the kernel says of a node's process.

    Attributes:
        stopped: by a signal or a debugger.
        ran_s: processor time that its threads have had.
        waited_s: time that its threads were ready and had no processor.
    """

    stopped: bool = False
    ran_s: float = 0.0
    waited_s: float = 0.0


@dataclass(frozen=True)
class Look:
    """A run at one moment.

    Attributes:
        status: what everybody who runs answered.
        processes: by node, for those whose process is alive.
        asked_at_s: Unix time before anybody was asked.
        answered_at_s: and after all have answered.
    """

    status: RunStatus
    processes: Mapping[str, ProcessState] = field(default_factory=dict)
    asked_at_s: float = 0.0
    answered_at_s: float = 0.0


@dataclass(frozen=True)
class NodePair:
    """One node's two answers."""

    name: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    @property
    def span_s(self) -> float:
        """Time between the answers, by the node's own monotonic clock."""
        return float(self.after["uptime_s"] - self.before["uptime_s"])

    def grown(self, table: str, counter: str) -> int:
        """By how much a counter of ``node``, ``reducer`` or ``endpoint`` has grown."""
        return int(self.after[table][counter] - self.before[table][counter])


@dataclass(frozen=True)
class LinkPair:
    """One direction of a link, seen twice.

    Attributes:
        node: where it begins.
        peer: where it ends.
        link: as the topology has it.
        span_s: between the two.
        sent_bytes: that left the queue meanwhile.
        dropped_queue: packets that found the queue full meanwhile.
        dropped_loss: packets that the link lost meanwhile.
        depths_bytes: of the queue, at the two moments.
        packets_out: Interests and Data that the node gave to the link meanwhile.
        packets_in: of them, how many came to the peer; ``None`` when that is not known.
        malformed_in: packets from this link that the peer did not understand.
        invalid_in: packets from this link whose signature the peer found wrong.
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
    packets_in: int | None
    malformed_in: int = 0
    invalid_in: int = 0

    def __str__(self) -> str:
        return f"{self.node}→{self.peer}"

    @property
    def sent_bps(self) -> float:
        """Bits a second that the link carried."""
        return 8 * self.sent_bytes / self.span_s


@dataclass(frozen=True)
class Observation:
    """A run that was looked at twice, over its topology."""

    topology: Topology
    before: Look
    after: Look

    def nodes(self) -> Iterator[NodePair]:
        """The nodes whose same process answered both times, but for workers that are starting."""
        starting = self.starting()
        for name, after in self.after.status.nodes.items():
            before = self.before.status.nodes.get(name)
            if before is None or name in starting:
                continue
            if before["uptime_s"] < after["uptime_s"]:
                yield NodePair(name, before, after)

    def starting(self) -> frozenset[str]:
        """Workers that have begun, and whose groups are not complete yet.

        What they do meanwhile (loading libraries, waiting for each other) is nothing wrong. Those
        that take longer than :data:`STARTING_S` are looked at like all others.
        """
        status = self.after.status
        open_groups = [g for g in status.groups if len(g["joined"]) < len(g["ranks"])]
        waiting = {node for group in open_groups for node in group["ranks"]}
        placed = {node for group in status.groups for node in group["ranks"]}
        return frozenset(
            name
            for name, answer in status.nodes.items()
            if answer["kind"] == "host"
            and answer["uptime_s"] < STARTING_S
            and (name in waiting or name not in placed)
        )

    def links(self) -> Iterator[LinkPair]:
        """Each direction of each link whose beginning answered both times; none of a cut link."""
        nodes = {pair.name: pair for pair in self.nodes()}
        for link in self.topology.links:
            if self.is_cut(link):
                continue
            for near, far in ((link.a, link.b), (link.b, link.a)):
                if near.node in nodes:
                    yield self._link(link, nodes[near.node], near.node, far.node, nodes)

    def is_cut(self, link: Link) -> bool:
        """Whether the nodes at both ends of a link say that it carries nothing."""
        near, far = link.nodes
        return self._finds_silent(near, far) and self._finds_silent(far, near)

    def _finds_silent(self, node: str, peer: str) -> bool:
        answer = self.after.status.nodes.get(node)
        return answer is not None and bool(_face(answer, peer)["silent"])

    def _link(
        self, link: Link, node: NodePair, near: str, far: str, nodes: Mapping[str, NodePair]
    ) -> LinkPair:
        before, after = _face(node.before, far), _face(node.after, far)
        port_before, port_after = before["port"], after["port"]
        sent = port_after["sent_bytes"] - port_before["sent_bytes"]
        dropped = port_after["dropped_queue"] - port_before["dropped_queue"]
        depths = (port_before["depth_bytes"], port_after["depth_bytes"])
        kernel = (_kernel(self.before, near, far), _kernel(self.after, near, far))
        if kernel[0] is not None and kernel[1] is not None:
            sent = kernel[1].bytes - kernel[0].bytes
            dropped = kernel[1].drops - kernel[0].drops
            depths = (kernel[0].backlog_bytes, kernel[1].backlog_bytes)
        elif not sent:  # a link without a shape has no port model either
            sent = after["bytes_out"] - before["bytes_out"]
        peer = nodes.get(far)
        heard = None if peer is None else (_face(peer.before, near), _face(peer.after, near))
        return LinkPair(
            node=near,
            peer=far,
            link=link,
            span_s=node.span_s,
            sent_bytes=sent,
            dropped_queue=dropped,
            dropped_loss=port_after["dropped_loss"] - port_before["dropped_loss"],
            depths_bytes=depths,
            packets_out=_packets(after, "out") - _packets(before, "out"),
            packets_in=None
            if heard is None
            else _packets(heard[1], "in") - _packets(heard[0], "in"),
            malformed_in=0 if heard is None else _grown(heard, "malformed_in"),
            invalid_in=0 if heard is None else _grown(heard, "invalid_signature_in"),
        )


def _face(status: Mapping[str, Any], peer: str) -> Mapping[str, Any]:
    face: Mapping[str, Any] = next(link for link in status["links"] if link["peer"] == peer)
    return face


def _packets(face: Mapping[str, Any], direction: str) -> int:
    return int(face[f"interests_{direction}"] + face[f"data_{direction}"])


def _grown(faces: tuple[Mapping[str, Any], Mapping[str, Any]], counter: str) -> int:
    return int(faces[1][counter] - faces[0][counter])


def _kernel(look: Look, near: str, far: str) -> LinkCounters | None:
    for entry in look.status.kernel_links:
        if (entry.link.node, entry.link.peer) == (near, far):
            return entry.counters
    return None
