"""The state of a run as its MQTT topics report it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from innet.telemetry.messages import (
    MOST_NODES,
    ControllerStatus,
    LauncherStatus,
    NodeCounters,
    NodeStatus,
    RunEvent,
)
from innet.telemetry.topics import CONTROLLER, LAUNCHER, is_of_run, source_of

_EVENTS_KEPT = 200
LEAST_SPAN_S = 1e-3
"""Between two readings of counters: rates over less say nothing."""


@dataclass
class NodeFeed:
    """The status and the last two counters of one node."""

    status: NodeStatus | None = None
    counters: NodeCounters | None = None
    previous: NodeCounters | None = None

    def take_counters(self, counters: NodeCounters) -> None:
        """Take newer counters; those of an earlier process of the node are discarded."""
        restarted = self.counters is not None and counters.uptime_s < self.counters.uptime_s
        self.previous = None if restarted else self.counters
        self.counters = counters

    def growth_per_s(self, of: Callable[[NodeCounters], float]) -> float | None:
        """The rate of a counter; ``None`` before the second reading."""
        if self.counters is None or self.previous is None:
            return None
        span_s = self.counters.time_s - self.previous.time_s
        return (of(self.counters) - of(self.previous)) / span_s if span_s >= LEAST_SPAN_S else None


@dataclass
class RunFeed:
    """The state of a run; pass each message to :meth:`take`."""

    run: str | None = None
    """Messages of other runs are ignored; ``None``: all are accepted."""
    launcher: LauncherStatus | None = None
    controller: ControllerStatus | None = None
    nodes: dict[str, NodeFeed] = field(default_factory=dict)
    events: deque[RunEvent] = field(default_factory=lambda: deque(maxlen=_EVENTS_KEPT))
    has_ended: bool = False
    """The launcher has reported the end, or died."""
    taken: int = 0
    """Messages of the run so far."""
    unreadable: int = 0
    """Messages that this version of innet cannot read."""

    def take(self, topic: str, payload: bytes) -> RunEvent | None:
        """Take a message; returns the event if it is one."""
        source = source_of(topic)
        if source is None or (self.run is not None and not is_of_run(topic, self.run)):
            return None
        self.taken += 1
        name, leaf = source
        if not payload:  # a retained message was deleted: the run has ended
            self._forget(name)
            return None
        try:
            return self._take(name, leaf, payload)
        except ValueError:  # of pydantic, too
            self.unreadable += 1
            return None

    def _take(self, name: str, leaf: str, payload: bytes) -> RunEvent | None:
        if leaf == "event":
            event = _of(name, RunEvent.model_validate_json(payload))
            if event in self.events:  # a duplicate: the first acknowledgement was lost
                return None
            self.events.append(event)
            return event
        if name == LAUNCHER and leaf == "status":
            self.launcher = LauncherStatus.model_validate_json(payload)
            self.has_ended = self.launcher.state != "up"
        elif name == CONTROLLER and leaf == "status":
            self.controller = ControllerStatus.model_validate_json(payload)
        elif leaf == "status":
            self._node(name).status = _of(name, NodeStatus.model_validate_json(payload))
        elif leaf == "counters":
            counters = _of(name, NodeCounters.model_validate_json(payload))
            self._node(name).take_counters(counters)
        return None

    def _node(self, name: str) -> NodeFeed:
        if name not in self.nodes and len(self.nodes) >= MOST_NODES:
            raise ValueError("more nodes than a run has")
        return self.nodes.setdefault(name, NodeFeed())

    def _forget(self, name: str) -> None:
        if name == LAUNCHER:
            self.has_ended = True
            self.launcher = None
        elif name == CONTROLLER:
            self.controller = None
        self.nodes.pop(name, None)


_Message = TypeVar("_Message", NodeStatus, NodeCounters, RunEvent)


def _of(name: str, message: _Message) -> _Message:
    """A message about the source on whose topic it is.

    Raises:
        ValueError: it is about another one.
    """
    about = message.source if isinstance(message, RunEvent) else message.node
    if about != name:
        raise ValueError(f"a message about {about} on a topic of {name}")
    return message
