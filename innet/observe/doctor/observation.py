"""Observes a run twice, some time apart, and compares the two looks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil

from innet.cluster.emulation.kernel_network import KernelCounters
from innet.cluster.emulation.runs import RunRecord
from innet.cluster.run_status import ANSWER_TIMEOUT_S, RunStatus, read_run_status
from innet.errors import TelemetryError
from innet.topology import Link, Topology, load_topology

STARTING_S = 60.0
"""A worker that has not joined all its groups after this time counts as hanging."""


@dataclass(frozen=True)
class ProcessState:
    """The kernel's accounting of a node's process.

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
        status: the answers of all running nodes.
        processes: by node, of live processes.
        asked_at_s: Unix time before the requests.
        answered_at_s: Unix time after all answers.
    """

    status: RunStatus
    processes: Mapping[str, ProcessState] = field(default_factory=dict)
    asked_at_s: float = 0.0
    answered_at_s: float = 0.0

    @cached_property
    def kernel(self) -> Mapping[tuple[str, str], KernelCounters]:
        """In ``netns`` mode, the kernel's counters by direction."""
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

    def grown(self, table: str, counter: str) -> int:
        """Growth of a counter of ``node``, ``reducer`` or ``endpoint``."""
        return int(self.after[table][counter] - self.before[table][counter])


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
        packets_in: of them, those that the peer received; ``None`` when unknown.
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
    packets_in: int | None
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
    """Two looks at a run, and its topology."""

    topology: Topology
    before: Look
    after: Look

    def nodes(self) -> Iterator[NodePair]:
        """The nodes whose process answered both times, without workers that are starting."""
        starting = self.starting()
        for name, after in self.after.status.nodes.items():
            before = self.before.status.nodes.get(name)
            if before is None or name in starting:
                continue
            if before["uptime_s"] < after["uptime_s"]:
                yield NodePair(name, before, after)

    def starting(self) -> frozenset[str]:
        """Workers that run, and are in no pool and in no group that is complete.

        They load libraries or wait for each other, which is no problem. Workers that take longer
        than :data:`STARTING_S` are checked as all others.
        """
        status = self.after.status
        open_groups = [g for g in status.groups if len(g["joined"]) < len(g["ranks"])]
        waiting = {node for group in open_groups for node in group["ranks"]}
        placed = {node for group in status.groups for node in group["ranks"]}
        placed.update(node for pool in status.pools for node in pool["members"])
        return frozenset(
            name
            for name, answer in status.nodes.items()
            if answer["kind"] == "host"
            and answer["uptime_s"] < STARTING_S
            and (name in waiting or name not in placed)
        )

    def links(self) -> Iterator[LinkPair]:
        """Each direction of each link whose sender answered both times; none of a cut link."""
        nodes = {pair.name: pair for pair in self.nodes()}
        for link in self.topology.links:
            if self.is_cut(link):
                continue
            for near, far in ((link.a, link.b), (link.b, link.a)):
                if near.node in nodes:
                    yield self._link(link, nodes[near.node], near.node, far.node, nodes)

    def is_cut(self, link: Link) -> bool:
        """Whether both ends of a link report it silent, or the kernel has one of its ports down."""
        near, far = link.nodes
        return self._is_down(near, far) or (
            self._finds_silent(near, far) and self._finds_silent(far, near)
        )

    def _is_down(self, near: str, far: str) -> bool:
        answers = self.after.status.nodes
        ports = (self.after.kernel.get(ends) for ends in ((near, far), (far, near)))
        return {near, far} <= answers.keys() and any(p is not None and not p.is_up for p in ports)

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
        kernel = (self.before.kernel.get((near, far)), self.after.kernel.get((near, far)))
        if kernel[0] is not None and kernel[1] is not None:
            sent = kernel[1].bytes - kernel[0].bytes
            dropped = kernel[1].drops - kernel[0].drops
            depths = (kernel[0].backlog_bytes, kernel[1].backlog_bytes)
        elif not sent:  # a link without a shape has no port model either
            sent = after["bytes_out"] - before["bytes_out"]
        peer = nodes.get(far)
        peer_faces = None if peer is None else (_face(peer.before, near), _face(peer.after, near))
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
            if peer_faces is None
            else _packets(peer_faces[1], "in") - _packets(peer_faces[0], "in"),
            malformed_in=0 if peer_faces is None else _grown(peer_faces, "malformed_in"),
            invalid_in=0 if peer_faces is None else _grown(peer_faces, "invalid_signature_in"),
        )


def _face(status: Mapping[str, Any], peer: str) -> Mapping[str, Any]:
    face: Mapping[str, Any] = next(link for link in status["links"] if link["peer"] == peer)
    return face


def _packets(face: Mapping[str, Any], direction: str) -> int:
    return int(face[f"interests_{direction}"] + face[f"data_{direction}"])


def _grown(faces: tuple[Mapping[str, Any], Mapping[str, Any]], counter: str) -> int:
    return int(faces[1][counter] - faces[0][counter])


def observe(record: RunRecord, interval_s: float = 1.0) -> Observation:
    """Look at a run twice; blocks for ``interval_s`` and the time of the answers."""
    if not record.topology_path.exists():
        raise TelemetryError(
            f"{record.run_id} has no {record.topology_path.name} in {record.run_dir}: it is "
            "starting or ending, or was launched by another version of innet. Try again, or launch "
            "it again."
        )
    topology = load_topology(str(record.topology_path))
    before = look(record)
    time.sleep(interval_s)
    return Observation(topology=topology, before=before, after=look(record))


def look(record: RunRecord, timeout_s: float = ANSWER_TIMEOUT_S) -> Look:
    """Look at a run once; blocks until the nodes have answered, or for ``timeout_s``."""
    asked_at_s = time.time()
    status = read_run_status(record, timeout_s)
    answered_at_s = time.time()
    processes = {}
    for process in record.processes:
        if process.node is not None and process.identity.is_alive():
            with contextlib.suppress(psutil.NoSuchProcess, OSError):
                processes[process.node] = _state_of(process.identity.pid)
    return Look(status, processes, asked_at_s, answered_at_s)


def _state_of(pid: int) -> ProcessState:
    stopped = psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    ran_ns = waited_ns = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended, or the kernel keeps no such account
            ran, waited, _ = (thread / "schedstat").read_text().split()
            ran_ns += int(ran)
            waited_ns += int(waited)
    return ProcessState(stopped=stopped, ran_s=ran_ns / 1e9, waited_s=waited_ns / 1e9)
