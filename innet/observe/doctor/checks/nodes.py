"""Nodes that are dead, stopped or do not answer."""

from __future__ import annotations

from collections.abc import Iterator

from innet.observe.doctor.finding import Finding
from innet.observe.doctor.observation import Observation


class DeadNode:
    """A process that should answer and does not."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """A launcher, switches and members of groups that are gone, stopped or silent."""
        status = seen.after.status
        run = status.run.run_id
        if status.stale:
            yield _finding(
                "launcher",
                "the launcher",
                f"The launcher of {run} is dead, and the network with it.",
                f"`innet down {run}` removes what is left; then launch it again.",
            )
            return
        alive = seen.after.processes
        members = {node for group in status.groups for node in group["ranks"]}
        for node in (*seen.topology.switches, *sorted(members)):
            if node not in alive:
                yield _finding(
                    "gone",
                    node,
                    f"{node} is dead: its process is gone.",
                    "The log of the launcher says how it ended; a group that needs it ends with an "
                    "error that names it. Start the job, or the network, again.",
                )
        for node, process in alive.items():
            if process.stopped:
                yield _finding(
                    "stopped",
                    node,
                    f"{node} is stopped: a signal or a debugger holds its process.",
                    f"`kill -CONT {_pid(seen, node)}` lets it go on.",
                )
            elif node in status.silent and status.run.control_socket(node).exists():
                yield _finding(
                    "silent",
                    node,
                    f"{node} is alive and does not answer: {status.silent[node]}",
                    f"Look at what process {_pid(seen, node)} does (py-spy dump), and end it if it "
                    "hangs.",
                )


def _pid(seen: Observation, node: str) -> int:
    processes = seen.after.status.run.processes
    return next(p.identity.pid for p in reversed(processes) if p.node == node)


def _finding(cause: str, subject: str, problem: str, remedy: str) -> Finding:
    return Finding(check="dead_node", subject=subject, problem=problem, remedy=remedy, cause=cause)
