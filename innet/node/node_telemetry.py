"""The telemetry of a node, and the commands that it executes."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Protocol

from pydantic_core import to_jsonable_python

from innet._native import _core
from innet.node.node_config import NodeConfig
from innet.security.keys import NodeKeys
from innet.settings import Settings
from innet.telemetry import events
from innet.telemetry.commands import (
    Command,
    CommandGate,
    DropCache,
    DumpState,
    OrderRefused,
    SetInterval,
)
from innet.telemetry.messages import (
    REFUSALS,
    CommandReply,
    EventKind,
    NodeCounters,
    NodeStatus,
    State,
)
from innet.telemetry.source import start_publishing
from innet.telemetry.topics import node_topics


class ReadStatus(Protocol):
    """Reads the status that the node answers on its control socket."""

    def __call__(self, *, with_rules: bool = True) -> dict[str, Any]:
        """The status; see :meth:`innet.node.agent.NodeAgent.status`."""
        ...


def publish_node(
    node: _core.NodeHandle,
    config: NodeConfig,
    settings: Settings,
    keys: NodeKeys,
    read_status: ReadStatus,
) -> Callable[[], None]:
    """Publish a node's telemetry, and obey the operator of its ``keys``.

    Returns:
        A function that stops, as that of :func:`innet.telemetry.source.start_publishing`.
    """
    interval_s = settings.telemetry.interval_s
    make_source = partial(NodeSource, node, config, read_status, interval_s, keys.operator)
    return start_publishing(make_source, config.run_dir, settings.telemetry)


class NodeSource:
    """The source of one node.

    Attributes:
        topics: where it publishes.
        interval_s: between two publications of counters; a command may change it.
    """

    def __init__(
        self,
        node: _core.NodeHandle,
        config: NodeConfig,
        read_status: ReadStatus,
        interval_s: float,
        operator: str | None,
    ) -> None:
        """
        Args:
            read_status: reads the status of the node.
            interval_s: between two publications of counters.
            operator: public key that commands are signed with; ``None``: no commands.
        """
        self.run = config.run_id
        self.name = config.node
        self.topics = node_topics(config.run_id, config.node)
        self.interval_s = interval_s
        self._node = node
        self._config = config
        self._read_status = read_status
        self._since_s = time.time()
        self._gate = CommandGate(operator, config.run_id, config.node, self._since_s)
        self._refused: Counter[str] = Counter()
        self._counter_events = CounterEvents(
            [face.peer for face in config.faces if face.peer_kind == "switch"]
        )

    def status(self, state: State) -> bytes:
        """The payload of its status."""
        return NodeStatus(
            run=self.run,
            node=self.name,
            state=state,
            kind=self._config.kind,
            pid=os.getpid(),
            since_s=self._since_s,
        ).payload()

    def counters(self, events_dropped: int) -> bytes:
        """The payload of its counters now. Changes of the counters are reported as events.

        Call it on the thread that publishes, because it reads the processor time of that thread.
        """
        status = self._read_status(with_rules=False)
        counters = counters_of(status, self.run, self.name).model_copy(
            update={
                "telemetry_cpu_s": time.thread_time(),
                "interval_s": self.interval_s,
                "commands_refused": dict(self._refused),
                "events_dropped": events_dropped,
            }
        )
        self._counter_events.observe(counters, status["last_unroutable"])
        return counters.payload()

    def on_command(self, payload: bytes) -> bytes:
        """Execute a command if it is valid; the payload of the reply."""
        try:
            order = self._gate.admit(payload, time.time())
        except OrderRefused as refusal:
            self._refused[refusal.reason] += 1
            message = f"{self.name} refused a command: {refusal}"
            events.report("command_refused", message, reason=refusal.reason)
            return self._reply(refusal.number, accepted=False, message=str(refusal))
        events.report(
            "command_accepted",
            f"{self.name} obeys {order.command.kind}",
            command=order.command.kind,
        )
        message, result = self._obey(order.command)
        return self._reply(order.number, accepted=True, message=message, result=result)

    def _obey(self, command: Command) -> tuple[str, Any]:
        match command:
            case SetInterval(interval_s=interval_s):
                self.interval_s = interval_s
                message = f"{self.name} publishes counters every {interval_s:g} s"
                events.report("interval_set", message, interval_s=interval_s)
                return message, None
            case DropCache():
                entries = self._node.drop_cache()
                message = f"{self.name} dropped {entries} cached packets"
                events.report("cache_dropped", message, entries=entries)
                return message, {"entries": entries}
            case DumpState():
                return f"the state of {self.name}", to_jsonable_python(self._read_status())

    def _reply(
        self, number: int | None, *, accepted: bool, message: str, result: Any = None
    ) -> bytes:
        return CommandReply(
            run=self.run,
            node=self.name,
            number=number,
            accepted=accepted,
            message=message,
            result=result,
        ).payload()


def counters_of(status: dict[str, Any], run: str, node: str) -> NodeCounters:
    """The counters in a node's answer on its control socket (see ``NodeAgent.status``)."""
    return NodeCounters.model_validate(
        {
            **status,
            "run": run,
            "node": node,
            "tables": status["node"],
            "telemetry_cpu_s": 0.0,
            "interval_s": 0.0,
            "commands_refused": {},
            "events_dropped": 0,
        }
    )


class CounterEvents:
    """Compares each reading of a node's counters with the one before."""

    def __init__(
        self, neighbours: Collection[str], report: Callable[..., None] = events.report
    ) -> None:
        """``neighbours``: nodes that always run, whose silence is an event."""
        self._neighbours = frozenset(neighbours)
        self._report = report
        self._last: NodeCounters | None = None

    def observe(self, now: NodeCounters, last_unroutable: str) -> None:
        """Report what the counters show since the last reading."""
        last, self._last = self._last, now
        if last is None:
            return
        if (refused := now.reducer.refused_no_slot - last.reducer.refused_no_slot) > 0:
            self._report(
                "slots_exhausted",
                f"{refused} reductions found none of {now.slots} slots free on {now.node}",
                refused=refused,
                slots=now.slots,
            )
        self._compare_links(last, now)
        for reason in REFUSALS:
            packets = getattr(now.tables, reason) - getattr(last.tables, reason)
            if packets > 0:
                self._report(
                    "packets_refused",
                    f"{packets} packets were refused on {now.node}: {reason.replace('_', ' ')}",
                    packets=packets,
                    reason=reason,
                )
        if (unroutable := now.tables.no_route - last.tables.no_route) > 0:
            self._report(
                "route_missing",
                f"{now.node} has no route to {last_unroutable}, and refused {unroutable} Interests",
                prefix=last_unroutable,
                interests=unroutable,
            )

    def _compare_links(self, last: NodeCounters, now: NodeCounters) -> None:
        for before, after in zip(last.links, now.links, strict=True):
            if before.silent == after.silent or after.peer not in self._neighbours:
                continue
            kind: EventKind = "link_silent" if after.silent else "link_restored"
            what = "carries no packets any more" if after.silent else "carries packets again"
            self._report(kind, f"the link {now.node}--{after.peer} {what}", peer=after.peer)
