"""The state of the live view, from telemetry, events and looks of the doctor; sans-IO.

Readings and looks go in with the time of their arrival, frames come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from innet.cluster.emulation.kernel_network import KernelCounters
from innet.cluster.run_state import ANSWERING, NodeState
from innet.observe.doctor import Finding, Observation, grouped
from innet.observe.doctor.checks.nodes import starved_nodes
from innet.observe.web.document import (
    EventLine,
    FindingLine,
    Frame,
    GroupLine,
    JobLine,
    LinkFigures,
    MachineLine,
    NodeFigures,
    Picture,
    Wait,
)
from innet.telemetry.feed import LEAST_SPAN_S, NodeFeed
from innet.telemetry.messages import (
    ALARMING_KINDS,
    FaceCounters,
    LauncherStatus,
    NodeCounters,
    NodeStatus,
    RunEvent,
    refused_packets,
)

_FRESH_INTERVALS = 2.5
"""A node that has not reported for so many of its intervals is silent."""
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
        states: of the nodes; empty until the first look.
        late: nodes that others wait for.
        cut: the two ends of each link that carries nothing.
    """

    states: Mapping[str, NodeState] = field(default_factory=dict)
    machines: tuple[MachineLine, ...] = ()
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
        self._machines: tuple[MachineLine, ...] = ()

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

    def take_launcher(self, status: LauncherStatus) -> None:
        """Take the machines of a network that the doctor does not look at."""
        self._machines = tuple(MachineLine(**m.model_dump()) for m in status.machines)

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
            machines=look.machines or self._machines,
            findings=look.findings,
        )

    def ended_frame(self, now_s: float) -> Frame:
        """The network of a run that has ended: no process runs anywhere."""
        return Frame(time_s=round(now_s, 3), states=dict.fromkeys(self._names, "off"))

    def _state(self, name: str, now_s: float) -> NodeState:
        reporter = self._nodes[name]
        status = reporter.feed.status
        known = self._look.states.get(name)
        if known is not None and known != "up":
            return known
        if known is None and any(m.state == "lost" and name in m.nodes for m in self._machines):
            return "lost"
        if status is None:
            return "up" if known == "up" or reporter.feed.counters is not None else "off"
        if status.state == "gone":
            return "lost"
        if status.state == "stopped":
            return "off"
        return "up" if reporter.is_fresh(now_s, self._interval_s) else "silent"

    def _node_figures(self, states: Mapping[str, NodeState]) -> NodeFigures:
        feeds = [self._nodes[n].feed if states[n] in ANSWERING else NodeFeed() for n in self._names]

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
        faces = {name: self._faces(name) for name in self._names if states[name] in ANSWERING}
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
        """Links that the doctor finds cut, or an end whose peer runs."""
        silent = {
            (name, face.peer)
            for name, reporter in self._nodes.items()
            if states[name] in ANSWERING and reporter.feed.counters is not None
            for face in reporter.feed.counters.links
            if face.silent
        }
        for number, link in enumerate(self.picture.links):
            a, b = self._names[link.a], self._names[link.b]
            is_silent = (a, b) in silent or (b, a) in silent
            run = states[a] in ANSWERING and states[b] in ANSWERING
            if (run and is_silent) or frozenset((a, b)) in self._look.cut:
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


def look_result(seen: Observation, findings: Sequence[Finding], late: Iterable[str]) -> LookResult:
    """The result of two readings of the doctor; ``late``: the nodes that others wait for."""
    status = seen.after.status
    starved = starved_nodes(seen)
    return LookResult(
        states={
            name: "starved" if node.state == "up" and name in starved else node.state
            for name, node in status.state.nodes.items()
        },
        machines=tuple(
            MachineLine(name=name, **machine.model_dump(exclude={"remedy"}))
            for name, machine in status.run.machines.items()
        ),
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
                more="; ".join(group.more())[:_LONGEST_TEXT],
                level=group.worst.level,
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
