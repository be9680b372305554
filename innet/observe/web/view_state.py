"""The state of the live view, from telemetry, events and looks of the doctor; sans-IO.

Readings and looks go in with the time of their arrival, frames come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from innet.cluster.emulation.kernel_network import KernelCounters
from innet.observe.doctor import Finding, Observation, grouped
from innet.observe.web.document import (
    EventLine,
    FindingLine,
    Frame,
    GroupLine,
    JobLine,
    LinkFigures,
    NodeFigures,
    NodeState,
    Picture,
    Wait,
)
from innet.telemetry.feed import LEAST_SPAN_S, NodeFeed
from innet.telemetry.messages import (
    ALARMING_KINDS,
    FaceCounters,
    NodeCounters,
    NodeStatus,
    RunEvent,
    refused_packets,
)

_FRESH_INTERVALS = 2.5
"""A node that has not reported for so many of its intervals is silent."""
_LOST_S = 4.0
"""How long a lost switch is shown as dead at least: the launcher may restart it at once."""
_DIGITS = 4
_LONGEST_TEXT = 4000


@dataclass
class _Reporter:
    """The reports of one node, and when they arrived."""

    feed: NodeFeed = field(default_factory=NodeFeed)
    arrived_s: float = 0.0

    def is_fresh(self, now_s: float, interval_s: float) -> bool:
        counters = self.feed.counters
        if counters is None:
            return True
        longest_s = _FRESH_INTERVALS * max(interval_s, counters.interval_s)
        return now_s - self.arrived_s <= longest_s


@dataclass(frozen=True)
class LookResult:
    """The doctor's observation of a run of this machine.

    Attributes:
        stopped: nodes whose process a signal holds.
        dead: nodes that should run and have no process.
        late: nodes that others wait for.
        cut: the two ends of each link that carries nothing.
    """

    stopped: frozenset[str] = frozenset()
    dead: frozenset[str] = frozenset()
    late: tuple[str, ...] = ()
    waits: tuple[Wait, ...] = ()
    jobs: tuple[JobLine, ...] = ()
    findings: tuple[FindingLine, ...] = ()
    cut: frozenset[frozenset[str]] = frozenset()
    kernel: Mapping[tuple[str, str], tuple[KernelCounters, KernelCounters, float]] = field(
        default_factory=dict
    )
    """The counters of two readings by direction, and the time between them, in ``netns`` mode."""


class ViewState:
    """The state of a network; give it what arrives, and take a frame now and then."""

    def __init__(self, picture: Picture, interval_s: float = 2.0) -> None:
        """``interval_s``: of telemetry, where a node has not said its own."""
        self.picture = picture
        self._interval_s = interval_s
        self._names = [node.name for node in picture.nodes]
        self._nodes = {name: _Reporter() for name in self._names}
        self._look = LookResult()
        self._lost: dict[str, tuple[float, str]] = {}
        """Switches that were lost: when, and a sentence without a full stop on why."""

    def take_event(self, event: RunEvent, now_s: float) -> None:
        """Take an event; of those that change the picture, the loss of a switch."""
        node = event.details.get("node")
        if event.kind == "switch_lost" and isinstance(node, str) and node in self._nodes:
            why = event.details.get("why")
            sentence = f"Switch {why}" if why else event.message[:1].upper() + event.message[1:]
            self._lost[node] = (now_s, sentence[:_LONGEST_TEXT])

    def take_counters(self, counters: NodeCounters, now_s: float) -> None:
        """Take a node's counters; those of unknown nodes are ignored."""
        reporter = self._nodes.get(counters.node)
        if reporter is not None and counters != reporter.feed.counters:
            reporter.feed.take_counters(counters)
            reporter.arrived_s = now_s

    def take_status(self, status: NodeStatus) -> None:
        """Take whether a node lives; a process that ended takes its counters with it."""
        reporter = self._nodes.get(status.node)
        if reporter is None:
            return
        reporter.feed.status = status
        if status.state != "up":
            reporter.feed.counters = reporter.feed.previous = None

    def take_look(self, look: LookResult) -> None:
        """Take what the doctor sees."""
        self._look = look

    def frame(self, now_s: float) -> Frame:
        """The network as it is known now."""
        states = {name: self._state(name, now_s) for name in self._names}
        look = self._look
        known = self._nodes.keys()
        return Frame(
            time_s=round(now_s, 3),
            states={name: state for name, state in states.items() if state != "up"},
            nodes=self._node_figures(states),
            links=self._link_figures(states),
            cut=tuple(self._cut(states)),
            late=tuple(name for name in look.late if name in known),
            waits=look.waits,
            jobs=look.jobs,
            findings=(*self._lost_switches(now_s), *look.findings),
        )

    def ended_frame(self, now_s: float) -> Frame:
        """The network of a run that has ended: no process runs anywhere."""
        return Frame(time_s=round(now_s, 3), states=dict.fromkeys(self._names, "off"))

    def _state(self, name: str, now_s: float) -> NodeState:
        reporter = self._nodes[name]
        status = reporter.feed.status
        if name in self._look.stopped:
            return "stopped"
        if name in self._look.dead or self._is_lost(name, now_s):
            return "gone"
        if status is None:
            return "up" if reporter.feed.counters is not None else "off"
        if status.state == "gone":
            return "gone"
        if status.state == "stopped":
            return "off"
        return "up" if reporter.is_fresh(now_s, self._interval_s) else "silent"

    def _is_lost(self, name: str, now_s: float) -> bool:
        return name in self._lost and now_s - self._lost[name][0] < _LOST_S

    def _lost_switches(self, now_s: float) -> Iterable[FindingLine]:
        """Findings of switches that the doctor may see only after their restart."""
        known = {finding.subject for finding in self._look.findings}
        for name, (_, sentence) in self._lost.items():
            if name not in known and self._is_lost(name, now_s):
                yield FindingLine(
                    check="switch_lost",
                    subject=name,
                    problem=f"{sentence}.",
                    remedy="The launcher starts it again up to recovery.switch_restarts times; its "
                    f"output is in the log of {name}.",
                )

    def _node_figures(self, states: Mapping[str, NodeState]) -> NodeFigures:
        feeds = [self._nodes[n].feed if states[n] == "up" else NodeFeed() for n in self._names]

        def now(of: Callable[[NodeCounters], float]) -> tuple[float | None, ...]:
            return tuple(None if f.counters is None else _short(of(f.counters)) for f in feeds)

        def rate(of: Callable[[NodeCounters], float]) -> tuple[float | None, ...]:
            return tuple(_short(feed.growth_per_s(of)) for feed in feeds)

        return NodeFigures(
            cpu=rate(lambda c: c.cpu_s),
            memory_bytes=now(lambda c: c.resident_bytes),
            slots_in_use=now(lambda c: c.reducer.slots_in_use),
            sums_per_s=rate(lambda c: c.reducer.reductions_completed),
            cache_hit_rate=tuple(_hit_rate(feed) for feed in feeds),
            cache_bytes=now(lambda c: c.tables.cache_bytes),
            pending=now(lambda c: c.tables.pit_entries),
            fetched_bps=rate(lambda c: 8 * c.endpoint.bytes_fetched),
            refused_per_s=rate(lambda c: refused_packets(c.tables.model_dump())),
        )

    def _link_figures(self, states: Mapping[str, NodeState]) -> LinkFigures:
        faces = {name: self._faces(name) for name in self._names if states[name] == "up"}
        bps: list[float | None] = []
        queues: list[float | None] = []
        drops: list[float | None] = []
        for source, to in self.picture.directions():
            kernel = self._look.kernel.get((source, to))
            if kernel is not None:
                before, after, span_s = kernel
                bps.append(_short(8 * (after.bytes - before.bytes) / span_s))
                queues.append(after.backlog_bytes)
                drops.append(_short((after.drops - before.drops) / span_s))
                continue
            now, earlier, span_s = faces.get(source, {}).get(to, (None, None, 0.0))
            rates = (
                (None, None)
                if now is None or earlier is None or span_s < LEAST_SPAN_S
                else (
                    8 * (_sent(now) - _sent(earlier)) / span_s,
                    (_dropped(now) - _dropped(earlier)) / span_s,
                )
            )
            bps.append(_short(rates[0]))
            drops.append(_short(rates[1]))
            queues.append(None if now is None else now.port.depth_bytes)
        return LinkFigures(bps=tuple(bps), queue_bytes=tuple(queues), drops_per_s=tuple(drops))

    def _faces(self, name: str) -> dict[str, tuple[FaceCounters, FaceCounters | None, float]]:
        feed = self._nodes[name].feed
        if feed.counters is None:
            return {}
        earlier = {} if feed.previous is None else {f.peer: f for f in feed.previous.links}
        span_s = 0.0 if feed.previous is None else feed.counters.time_s - feed.previous.time_s
        return {face.peer: (face, earlier.get(face.peer), span_s) for face in feed.counters.links}

    def _cut(self, states: Mapping[str, NodeState]) -> Iterable[int]:
        """Links whose ends both run, and that an end or the doctor finds silent."""
        silent = {
            (name, face.peer)
            for name, reporter in self._nodes.items()
            if states[name] == "up" and reporter.feed.counters is not None
            for face in reporter.feed.counters.links
            if face.silent
        }
        for number, link in enumerate(self.picture.links):
            a, b = self._names[link.a], self._names[link.b]
            is_silent = (a, b) in silent or (b, a) in silent or frozenset((a, b)) in self._look.cut
            if states[a] == states[b] == "up" and is_silent:
                yield number


def event_line(event: RunEvent) -> EventLine:
    """An event as the page shows it."""
    return EventLine(
        time_s=event.time_s,
        source=event.source[:256],
        kind=event.kind,
        message=event.message[:_LONGEST_TEXT],
        alarming=event.kind in ALARMING_KINDS,
    )


def look_result(seen: Observation, findings: Iterable[Finding], late: Iterable[str]) -> LookResult:
    """The result of two readings of the doctor; ``late``: the nodes that others wait for."""
    status = seen.after.status
    alive = seen.after.processes
    members = {node for group in status.groups for node in group["ranks"]}
    expected = {*seen.topology.switches, *members}
    return LookResult(
        stopped=frozenset(node for node, process in alive.items() if process.stopped),
        dead=frozenset(expected - alive.keys()),
        late=tuple(late),
        waits=tuple(
            Wait(
                node=node,
                number=operation["number"],
                missing=operation["missing"][:_LONGEST_TEXT],
                late=tuple(operation["late"]),
            )
            for node, answer in status.nodes.items()
            for operation in answer["operations"]
        ),
        jobs=tuple(
            JobLine(
                name=job["name"],
                hosts=tuple(job["hosts"]),
                groups=tuple(
                    GroupLine(
                        name=group["name"],
                        algorithm=group["algorithm"],
                        ranks=tuple(group["ranks"]),
                        joined=len(group["joined"]),
                    )
                    for group in status.groups
                    if group["job"] == job["name"]
                ),
            )
            for job in status.jobs
        ),
        findings=tuple(
            FindingLine(
                check=group.worst.check,
                subject=group.worst.subject,
                problem=group.worst.problem[:_LONGEST_TEXT],
                remedy=group.worst.remedy[:_LONGEST_TEXT],
                more=group.more_like_it(),
            )
            for group in grouped(findings)
        ),
        cut=frozenset(frozenset(link.nodes) for link in seen.topology.links if seen.is_cut(link)),
        kernel=_kernel(seen),
    )


def _kernel(
    seen: Observation,
) -> dict[tuple[str, str], tuple[KernelCounters, KernelCounters, float]]:
    span_s = seen.after.answered_at_s - seen.before.answered_at_s
    if span_s < LEAST_SPAN_S:
        return {}
    earlier = seen.before.kernel
    return {
        direction: (earlier[direction], now, span_s)
        for direction, now in seen.after.kernel.items()
        if direction in earlier
    }


def _sent(face: FaceCounters) -> int:
    """Bytes of the queue's port; a link without a shape has no port."""
    return face.port.sent_bytes if face.port.enqueued else face.bytes_out


def _dropped(face: FaceCounters) -> int:
    return face.port.dropped_queue + face.port.dropped_loss


def _hit_rate(feed: NodeFeed) -> float | None:
    """Share of cache look-ups since the last reading that found something."""
    hits = feed.growth_per_s(lambda c: c.tables.cache_hits)
    misses = feed.growth_per_s(lambda c: c.tables.cache_misses)
    if hits is None or misses is None or hits + misses <= 0:
        return None
    return _short(hits / (hits + misses))


def _short(value: float | None) -> float | None:
    """Few digits, so that recordings are small; a counter that went back counts as zero."""
    if value is None:
        return None
    shortened = float(f"{max(0.0, value):.{_DIGITS}g}")
    return int(shortened) if shortened.is_integer() else shortened
