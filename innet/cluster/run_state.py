"""The state of a run: of its launcher, its machines, its nodes and its links.

:func:`run_state` derives it from the launcher's record, the kernel's accounting of processes, and
the answers of nodes and controller. All displays (``innet status``, ``doctor``, ``metrics``, the
live view) read it. docs/monitoring.md lists the states, and what the doctor finds in each.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import Field

from innet.cluster.emulation.recorded_parts import RecordedEnd
from innet.cluster.emulation.runs import RecordedProcess, RunRecord
from innet.cluster.process_states import ProcessState, is_held
from innet.topology.routes import Ends, ends_of
from innet.validation_messages import StrictModel

STARTING_S = 60.0
"""A worker that has not joined all its groups after this time counts as hanging."""
RECENT_S = 60.0
"""A node whose process ended counts as restarted for so long."""

LaunchState = Literal["starting", "up", "stopped", "ended"]
"""``starting``: the launcher waits for machines or switches. ``stopped``: a signal or a debugger
holds the launcher. ``ended``: the launcher has ended."""

NodeState = Literal[
    "off",
    "starting",
    "up",
    "restarting",
    "restarted",
    "silent",
    "stopped",
    "starved",
    "cut",
    "lost",
    "ended",
]
"""
* ``off``: no process runs there, and none has to.
* ``starting``: its process runs and does not answer yet, or has not joined its groups yet.
* ``up``: it answers.
* ``restarting``: its process ended, and the launcher starts it again.
* ``restarted``: the same, less than a minute ago; it answers again.
* ``silent``: its process runs and does not answer.
* ``stopped``: a signal or a debugger holds its process.
* ``starved``: it answers, and waits for a processor most of the time.
* ``cut``: it answers, and none of its links carries anything.
* ``lost``: its process or its machine is gone, and it is needed.
* ``ended``: the launcher has ended.
"""


ANSWERING: Final[frozenset[NodeState]] = frozenset({"up", "restarted", "starved", "cut"})
"""States of nodes that answer and count."""


class NodeCondition(StrictModel):
    """A node of a run at one moment.

    Attributes:
        machine: in ``cluster`` mode.
        since_s: Unix time at which the state began; ``None``: unknown.
        why: more about the state, as a clause without a full stop.
        pid: of its process, on its machine.
        restarts: how often the launcher has started it again.
    """

    state: NodeState
    machine: str | None = None
    since_s: float | None = None
    why: str = ""
    pid: int | None = None
    restarts: int = 0


class RunState(StrictModel):
    """The state of a run.

    Attributes:
        launch: the state of the launcher.
        nodes: of this machine's part, or of the whole network in the launcher's record.
        cut: the links that carry nothing although the nodes at both ends run.
    """

    launch: LaunchState
    nodes: dict[str, NodeCondition] = Field(default_factory=dict)
    cut: tuple[Ends, ...] = ()

    def in_state(self, *states: NodeState) -> list[str]:
        """The nodes in one of these states."""
        return [name for name, node in self.nodes.items() if node.state in states]


@dataclass(frozen=True)
class Answers:
    """What nodes and controller answered at one moment.

    Attributes:
        nodes: by name, the status of each node that answered.
        silent: by name, why a node whose process runs gave none.
        groups, pools: of the controller.
        cut: links that the controller or the kernel reports as cut.
        processes: by node, the kernel's accounting of each process.
    """

    nodes: Mapping[str, Mapping[str, Any]]
    silent: Mapping[str, str] = field(default_factory=dict)
    groups: Sequence[Mapping[str, Any]] = ()
    pools: Sequence[Mapping[str, Any]] = ()
    cut: Collection[Ends] = ()
    processes: Mapping[str, ProcessState] = field(default_factory=dict)

    def members(self) -> set[str]:
        """The nodes of all groups and pools."""
        found = {node for group in self.groups for node in group["ranks"]}
        return found.union(*(pool["members"] for pool in self.pools))

    def waiting(self) -> set[str]:
        """The nodes of groups that some ranks have not joined yet."""
        incomplete = (g for g in self.groups if len(g["joined"]) < len(g["ranks"]))
        return {node for group in incomplete for node in group["ranks"]}

    def cut_links(self) -> set[Ends]:
        """Links between answering nodes that both ends, or others, report as cut."""
        silent = {
            (node, face["peer"])
            for node, answer in self.nodes.items()
            for face in answer["links"]
            if face["silent"] and face["peer"] in self.nodes
        }
        both = {ends_of(*ends) for ends in silent if ends[::-1] in silent}
        return both | {ends_of(*ends) for ends in self.cut}


def run_state(record: RunRecord, answers: Answers, now_s: float | None = None) -> RunState:
    """The state of the run of ``record``."""
    return _Reading(record, answers, time.time() if now_s is None else now_s).state()


class _Reading:
    """One derivation of a state."""

    def __init__(self, record: RunRecord, answers: Answers, now_s: float) -> None:
        self._record = record
        self._answers = answers
        self._now_s = now_s
        self._members = answers.members()
        self._waiting = answers.waiting()
        self._cut = answers.cut_links()
        self._processes = {p.node: p for p in record.processes if p.node is not None}
        self._machine_of = {
            node: name for name, machine in record.machines.items() for node in machine.nodes
        }

    def state(self) -> RunState:
        record = self._record
        nodes = dict.fromkeys((*record.switches, *record.hosts, *self._machine_of))
        if record.machine is not None:  # the rest is not known here
            nodes = {node: None for node in nodes if node in self._processes}
        launch: LaunchState = "up" if record.ready_s is not None else "starting"
        if record.is_stale:
            launch = "ended"
        elif is_held(record.launcher):
            launch = "stopped"
        found = {node: self._node(node, launch) for node in nodes}
        return RunState(launch=launch, nodes=found, cut=tuple(sorted(self._cut)))

    def _node(self, name: str, launch: LaunchState) -> NodeCondition:
        machine, process = self._machine_of.get(name), self._processes.get(name)
        end = self._record.ends.get(name)
        state, since_s, why = (
            ("ended", None, "") if launch == "ended" else self._state_of(name, process, end)
        )
        return NodeCondition(
            state=state,
            machine=machine,
            since_s=since_s,
            why=why,
            pid=process.identity.pid if process is not None else None,
            restarts=0 if end is None else end.restarts,
        )

    def _state_of(
        self, name: str, process: RecordedProcess | None, end: RecordedEnd | None
    ) -> tuple[NodeState, float | None, str]:
        """The state, since when, and why."""
        machine = self._record.machines.get(self._machine_of.get(name, ""))
        if machine is not None and machine.state != "up":
            return machine.state, machine.since_s, machine.why
        if name in self._answers.processes:
            return self._of_running(name, process, end)
        if name not in self._record.switches:
            if name not in self._members:
                return "off", None, ""
            at_s, why = (None, "") if end is None else (end.at_s, end.why)
            return "lost", at_s, why
        if end is None:
            starts = self._record.ready_s is None
            return ("starting", self._record.started_at, "") if starts else ("lost", None, "")
        return ("restarting" if end.returns else "lost"), end.at_s, end.why

    def _of_running(
        self, name: str, process: RecordedProcess | None, end: RecordedEnd | None
    ) -> tuple[NodeState, float | None, str]:
        """The same, of a node with a process."""
        answer = self._answers.nodes.get(name)
        began_s = None if process is None else process.recorded_s
        if self._answers.processes[name].stopped:
            return "stopped", None, ""
        if answer is None:
            return self._without_answer(name, began_s, end)
        if self._is_cut(name, answer):
            return "cut", None, ""
        if end is not None and end.returns and self._now_s - end.at_s < RECENT_S:
            return "restarted", end.at_s, end.why
        began_s = self._now_s - answer["uptime_s"]
        if self._is_joining(name) and answer["uptime_s"] < STARTING_S:
            return "starting", began_s, ""
        return "up", began_s, ""

    def _without_answer(
        self, name: str, began_s: float | None, end: RecordedEnd | None
    ) -> tuple[NodeState, float | None, str]:
        why = self._answers.silent.get(name, "")
        if name in self._record.switches:
            if end is not None and end.returns and end.back_s is None:
                return "restarting", end.at_s, end.why
            is_starting = self._record.ready_s is None
        else:
            has_socket = self._record.control_socket(name).exists()
            is_young = began_s is not None and self._now_s - began_s < STARTING_S
            is_starting = not has_socket or (is_young and self._is_joining(name))
        return ("starting", began_s, "") if is_starting else ("silent", None, why)

    def _is_joining(self, name: str) -> bool:
        """Whether a host is in no pool, and in no group that is complete.

        It loads libraries or waits for others, which is no problem.
        """
        if name in self._record.switches:
            return False
        return name in self._waiting or name not in self._members

    def _is_cut(self, name: str, answer: Mapping[str, Any]) -> bool:
        peers = {face["peer"] for face in answer["links"]}
        return bool(peers) and all(ends_of(name, peer) in self._cut for peer in peers)
