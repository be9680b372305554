"""Applies the events of a topology or workload to a simulation and its hosts' processors."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from innet.errors import WorkloadError
from innet.lab.compare.measurement import SimulatedEvent
from innet.lab.simulation.simulation import Simulation
from innet.quantities import format_duration
from innet.topology import Topology
from innet.topology.events import Target, TopologyEvent, event_problem, nodes_hit, targets_of
from innet.topology.settings import written_link_settings


class Processors:
    """One processor on each host, for programs that compute in virtual time.

    Example::

        await processors.compute("h3", 0.030)
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        """``now_s`` is the simulation's clock."""
        self._now_s = now_s
        self._slowness: defaultdict[str, float] = defaultdict(lambda: 1.0)
        self._paused_since_s: dict[str, float] = {}
        self._paused_s: defaultdict[str, float] = defaultdict(float)
        self._resumed: dict[str, asyncio.Event] = {}

    async def compute(self, host: str, duration_s: float) -> None:
        """Let ``host`` compute a task that takes ``duration_s`` at normal speed."""
        left_s = duration_s * self._slowness[host]
        while left_s > 0:
            paused_s = self._pause_so_far_s(host)
            await asyncio.sleep(left_s)
            left_s = self._pause_so_far_s(host) - paused_s
            if host in self._paused_since_s:
                await self._resumed[host].wait()

    def slow_down(self, host: str, factor: float) -> None:
        """Multiply the time of all later computing on ``host`` by ``factor``."""
        self._slowness[host] *= factor

    def pause(self, host: str) -> None:
        """Pause computing on a host."""
        self._paused_since_s[host] = self._now_s()
        self._resumed[host] = asyncio.Event()

    def resume(self, host: str) -> None:
        """Resume computing on a host, with the missed time added."""
        self._paused_s[host] = self._pause_so_far_s(host)
        del self._paused_since_s[host]
        self._resumed.pop(host).set()

    def _pause_so_far_s(self, host: str) -> float:
        since_s = self._paused_since_s.get(host)
        return self._paused_s[host] + (0.0 if since_s is None else self._now_s() - since_s)


class EventSchedule:
    """The events of one run; their random times and targets follow from the seed.

    Overlapping events of one kind on one target are one event, which ends with the last of them.

    Attributes:
        applied: the events so far.
    """

    def __init__(
        self, events: Sequence[TopologyEvent], sim: Simulation, processors: Processors, seed: int
    ) -> None:
        """
        Raises:
            WorkloadError: an event names a node or link that does not exist.
        """
        self.applied: list[SimulatedEvent] = []
        self._events = events
        self._sim = sim
        self._processors = processors
        self._targets = [_targets(event, number, sim.topology) for number, event in
                         enumerate(events)]  # fmt: skip
        self._sources = [random.Random(f"{seed}/event/{n}") for n in range(len(events))]
        self._active: Counter[tuple[str, Target]] = Counter()

    def start(self) -> None:
        """Schedule the events, at their times from now on."""
        for number, event in enumerate(self._events):
            first_s = self._sim.now_s + event.at_s
            if event.rate_per_s is not None:
                first_s += self._sources[number].expovariate(event.rate_per_s)
            self._plan(number, first_s)

    def active(self, kind: str) -> list[Target]:
        """The targets of events of a kind that have not ended."""
        return [target for (of, target), count in self._active.items() if of == kind and count]

    def _plan(self, number: int, time_s: float) -> None:
        event = self._events[number]
        if event.until_s is None or time_s < event.until_s:
            self._sim.at(time_s, self._occur, number)

    def _occur(self, number: int) -> None:
        event, source = self._events[number], self._sources[number]
        target = source.choice(self._targets[number])
        self._begin(event, target)
        if event.every_s is not None:
            self._plan(number, self._sim.now_s + event.every_s)
        elif event.rate_per_s is not None:
            self._plan(number, self._sim.now_s + source.expovariate(event.rate_per_s))

    def _begin(self, event: TopologyEvent, target: Target) -> None:
        self._active[event.kind, target] += 1
        do, _undo = self._actions(event, target)
        if self._active[event.kind, target] == 1 or event.kind in ("clock-jump", "straggle"):
            do()
            self._record(_description(event, target))
        if event.lasts_s is not None:
            self._sim.at(self._sim.now_s + event.lasts_s, self._end, event, target)

    def _end(self, event: TopologyEvent, target: Target) -> None:
        self._active[event.kind, target] -= 1
        _do, undo = self._actions(event, target)
        if self._active[event.kind, target] == 0 or event.kind == "straggle":
            undo()
            self._record(f"{_where(target)}: {_END[event.kind]}")

    def _record(self, text: str) -> None:
        self.applied.append(SimulatedEvent(time_s=self._sim.now_s, text=text))

    def _actions(
        self, event: TopologyEvent, target: Target
    ) -> tuple[Callable[[], None], Callable[[], None]]:
        """The action of an event, and the action that ends it."""
        sim = self._sim
        if event.kind == "link-down":
            a, b = target
            return lambda: sim.set_link_up(a, b, False), lambda: sim.set_link_up(a, b, True)
        if event.kind == "link-change":
            a, b = target
            return (
                lambda: sim.change_link(a, b, **event.link_settings),
                lambda: sim.reset_link(a, b),
            )
        nodes = nodes_hit(event, target[0], sim.topology)
        do, undo = self._node_actions(event)
        return lambda: _each(do, nodes), lambda: _each(undo, nodes)

    def _node_actions(
        self, event: TopologyEvent
    ) -> tuple[Callable[[str], None], Callable[[str], None]]:
        """The functions that start and end an event on each affected node."""
        if event.kind == "crash":
            return self._sim.crash, self._sim.restart
        if event.kind == "pause":
            return self._pause, self._resume
        if event.kind == "clock-jump":
            return lambda node: self._sim.advance_clock(node, event.jump_s), lambda _node: None
        slow_down = self._processors.slow_down
        return (
            lambda node: slow_down(node, event.factor),
            lambda node: slow_down(node, 1 / event.factor),
        )

    def _pause(self, node: str) -> None:
        self._sim.pause(node)
        self._processors.pause(node)

    def _resume(self, node: str) -> None:
        self._sim.resume(node)
        self._processors.resume(node)


def _each(action: Callable[[str], None], nodes: Sequence[str]) -> None:
    for node in nodes:
        action(node)


_END = {
    "link-down": "up again",
    "link-change": "as before",
    "crash": "started again",
    "pause": "goes on",
    "clock-jump": "",
    "straggle": "as fast as before",
}


def _where(target: Target) -> str:
    return " -- ".join(target)


def _description(event: TopologyEvent, target: Target) -> str:
    what = {
        "link-down": "down",
        "link-change": _changes(event),
        "crash": "crashed",
        "pause": "paused",
        "clock-jump": f"clock jumps ahead by {format_duration(event.jump_s)}",
        "straggle": f"computes {event.factor:g} times as long",
    }
    return f"{_where(target)}: {what[event.kind]}"


def _changes(event: TopologyEvent) -> str:
    settings = written_link_settings(event.link_settings)
    return ", ".join(f"{key} {value}" for key, value in settings.items())


def _targets(event: TopologyEvent, number: int, topology: Topology) -> list[Target]:
    """The nodes or links that an event can affect."""
    problem = event_problem(event, topology)
    if problem is not None:
        raise WorkloadError(f"events.{number}: {problem}")
    return targets_of(event, topology)
