"""Checks of the parts of a run: its launcher, controller, machines and nodes, by their states."""

from __future__ import annotations

from collections.abc import Iterator

from innet.cluster.process_states import is_held
from innet.cluster.run_state import STARTING_S, NodeCondition, NodeState
from innet.observe.doctor.finding import Finding
from innet.observe.doctor.observation import Observation
from innet.quantities import counted

_CONTROLLER = "controller"
_MOST_RESTARTS = 3
"""A node that was restarted as often, and lately, is a problem though it answers again."""


class BadLauncher:
    """A launcher or controller that has ended, is stopped or does not answer."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding at most of each."""
        record = seen.after.status.run
        if seen.after.status.state.launch == "ended":
            yield Finding(
                check="ended_launcher",
                subject="the launcher",
                problem=f"The launcher of {record.run_id} has ended, and the network with it.",
                remedy=f"`innet down {record.run_id}` removes what it left; then launch the "
                "network again.",
            )
            return
        if seen.before.status.state.launch == seen.after.status.state.launch == "stopped":
            yield Finding(
                check="stopped_launcher",
                subject="the launcher",
                problem=f"The launcher of {record.run_id} is stopped: a signal or a debugger holds "
                "its process. Running jobs go on; nothing that ends is noticed or started again.",
                remedy=f"`kill -CONT {record.launcher.pid}` lets it go on.",
            )
        yield from _of_controller(seen)


def _of_controller(seen: Observation) -> Iterator[Finding]:
    record = seen.after.status.run
    end = record.ends.get(_CONTROLLER)
    if end is not None and not end.returns:
        yield Finding(
            check="lost_controller",
            subject=_CONTROLLER,
            problem=f"The controller {end.why} {_ago(seen, end.at_s)}, and is not restarted: "
            "running jobs go on, new jobs and groups are refused.",
            remedy="When its jobs are over, end the network (`innet down "
            f"{record.run_id}`) and launch it again.",
        )
    elif seen.before.status.controller_silence and seen.after.status.controller_silence:
        controller = next((p for p in record.processes if p.label == _CONTROLLER), None)
        pid = "" if controller is None else f" {controller.identity.pid}"
        is_stopped = controller is not None and is_held(controller.identity)
        how = "is stopped: a signal or a debugger holds its process"
        yield Finding(
            check="stopped_controller" if is_stopped else "silent_controller",
            subject=_CONTROLLER,
            problem=f"The controller {how if is_stopped else 'runs and does not answer'}. Running "
            "jobs go on; groups, failures and new jobs wait for it.",
            remedy=f"`kill -CONT{pid}` lets it go on."
            if is_stopped
            else f"Look at what its process{pid} does (`py-spy dump --pid{pid}`); the launcher "
            "starts another one when it ends.",
        )


class LostMachine:
    """A machine that had joined, and does not take part now."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each machine, with what ran there."""
        if seen.after.status.state.launch == "ended":
            return
        for name, machine in seen.after.status.run.machines.items():
            if machine.state != "lost":
                continue
            ran = f" {', '.join(machine.ran)} ran there." if machine.ran else ""
            yield Finding(
                check="lost_machine",
                subject=name,
                problem=f"Machine {name} ({machine.address or 'no address'}) has been lost for "
                f"{_span(seen, machine.since_s)}: {machine.why}.{ran}",
                remedy=f"{machine.remedy}. Its nodes are {', '.join(machine.nodes)}; jobs can use "
                "other hosts meanwhile (--hosts).",
                severity=len(machine.ran),
            )


class BadNode:
    """A node in a state that lasted from one look to the next, and that needs attention."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each node; nodes of a lost machine are in the finding about it."""
        if seen.after.status.state.launch == "ended":
            return
        malformed = seen.after.status.malformed
        machines = seen.after.status.run.machines
        for name in sorted(malformed):
            yield _malformed(seen, name)
        for name, node in seen.lasting().items():
            machine = machines.get(node.machine or "")
            if name not in malformed and (machine is None or machine.state == "up"):
                yield from _of_node(seen, name, node)


def _malformed(seen: Observation, name: str) -> Finding:
    return Finding(
        check="malformed_status",
        subject=name,
        problem=f"{seen.after.status.silent[name]}.",
        remedy="Its process is of another version of innet, or lies. Look at its machine, and let "
        "that join again.",
    )


def _of_node(seen: Observation, name: str, node: NodeCondition) -> Iterator[Finding]:
    match node.state:
        case "lost":
            end = f"{node.why} {_ago(seen, node.since_s)}" if node.why else "has no process"
            yield _finding(
                "lost",
                name,
                f"{name} is lost: its process {end}, and is not started again.",
                f"{_output_of(seen, name)} says why. A group that needs it ends with an error that "
                "names it; start the job, or the network, again.",
            )
        case "restarting":
            yield _finding(
                "restarting",
                name,
                f"{name} {node.why} {_ago(seen, node.since_s)}; the launcher is starting it again "
                f"(restart {node.restarts}).",
                "Wait a few seconds: the network avoids it meanwhile, and it returns by itself. If "
                f"that repeats, {_output_of(seen, name).lower()} says why.",
            )
        case "restarted" if node.restarts >= _MOST_RESTARTS:
            yield _finding(
                "restarting",
                name,
                f"{name} was started again {node.restarts} times, last "
                f"{_ago(seen, node.since_s)}: it {node.why}.",
                f"{_output_of(seen, name)} says why it ends. After recovery.switch_restarts it is "
                "not started again.",
            )
        case "restarted":
            yield _finding(
                "restarted",
                name,
                f"{name} {node.why} {_ago(seen, node.since_s)}, was started again, and answers.",
                "There is nothing to do, unless it repeats.",
            ).model_copy(update={"level": "note"})
        case "stopped":
            yield _finding(
                "stopped",
                name,
                f"{name} is stopped: a signal or a debugger holds its process.",
                f"`kill -CONT {node.pid}` lets it go on.",
            )
        case "silent":
            yield _silent(seen, name, node)


def _silent(seen: Observation, name: str, node: NodeCondition) -> Finding:
    process = f"process {_place(seen, node)}"
    if _is_heard(seen, name):
        return _finding(
            "silent",
            name,
            f"{name} answers no requests, and its neighbours receive its packets: a call holds its "
            "Python interpreter.",
            f"`py-spy dump --pid` shows the call in {process}. Let it go on if it is a long "
            "computation; recovery.interpreter_timeout_s limits how long it may take.",
        )
    remedy = f"Look at what {process} does (`py-spy dump --pid`)."
    if _age_s(seen, name) > STARTING_S:
        remedy += (
            " If it hangs, end it: a switch is started again, a job ends with an error that names "
            "it."
        )
    return _finding("silent", name, f"{name} runs and does not answer: {node.why}", remedy)


def _is_heard(seen: Observation, name: str) -> bool:
    """Whether a neighbour that answers receives packets from a node."""
    return any(
        face["peer"] == name and not face["silent"]
        for answer in seen.after.status.nodes.values()
        for face in answer["links"]
    )


def _age_s(seen: Observation, name: str) -> float:
    """How long ago the process of a node was started."""
    started = (p.recorded_s for p in seen.after.status.run.processes if p.node == name)
    return seen.after.answered_at_s - max(started, default=0.0)


def _finding(state: NodeState, subject: str, problem: str, remedy: str) -> Finding:
    return Finding(check=f"{state}_node", subject=subject, problem=problem, remedy=remedy)


def _place(seen: Observation, node: NodeCondition) -> str:
    machine = seen.after.status.run.machines.get(node.machine or "")
    where = f" on machine {node.machine} ({machine.address})" if machine is not None else ""
    return f"{node.pid}{where}"


def _output_of(seen: Observation, name: str) -> str:
    return f"The output of the launcher of {seen.after.status.run.run_id} about {name}"


def _span(seen: Observation, since_s: float) -> str:
    return counted(max(0, round(seen.after.answered_at_s - since_s)), "second")


def _ago(seen: Observation, at_s: float | None) -> str:
    return "some time ago" if at_s is None else f"{_span(seen, at_s)} ago"
