"""Nodes that want to work and get no processor."""

from __future__ import annotations

from collections.abc import Iterator

from innet.observe.doctor.finding import Finding
from innet.observe.doctor.observation import Observation

_WAITING_SHARE = 0.3
"""Of the time between the looks, a thread of the node was ready and did not run."""


class StarvedNode:
    """A node whose threads wait for a processor longer than they have one."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each node."""
        for node in seen.nodes():
            before = seen.before.processes.get(node.name)
            after = seen.after.processes.get(node.name)
            if before is None or after is None:
                continue
            waited_s = after.waited_s - before.waited_s
            ran_s = after.ran_s - before.ran_s
            if waited_s > _WAITING_SHARE * node.span_s and waited_s > ran_s:
                yield Finding(
                    check="starved_node",
                    subject=node.name,
                    problem=f"{node.name} is starved of processor: within {node.span_s:.1f} s its "
                    f"threads ran for {ran_s:.2f} s and waited for a processor for "
                    f"{waited_s:.2f} s.",
                    remedy="Too many processes share this machine's processors: end others, set "
                    "fewer threads for the training (OMP_NUM_THREADS), emulate a smaller or slower "
                    "network (--rate), or take a machine with more cores.",
                    severity=waited_s / node.span_s,
                )
