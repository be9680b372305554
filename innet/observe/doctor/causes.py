"""Which findings follow from others: a switch that ended explains routes that are missing."""

from __future__ import annotations

from collections.abc import Sequence

from innet.observe.doctor.finding import Finding
from innet.observe.doctor.observation import Observation

_ABSENT = ("lost_machine", "lost_node", "restarting_node", "stopped_node", "silent_node")
_PARTED = (*_ABSENT, "cut_link")
_LATE = (*_PARTED, "starved_node")

_CAUSES = {
    "missing_route": _PARTED,
    "straggling_rank": _LATE,
    "lossy_link": _LATE,
    "slow_link": _LATE,
    "full_queue": _LATE,
    "no_free_slot": _PARTED,
    "cut_link": ("lost_machine",),
}
"""By check, the checks whose findings may be its cause."""


def with_causes(seen: Observation, found: Sequence[Finding]) -> list[Finding]:
    """The findings, each that follows from another with the subject of that one."""
    return [
        finding.model_copy(update={"because": cause.subject}) if cause is not None else finding
        for finding in found
        for cause in (_cause(seen, finding, found),)
    ]


def _cause(seen: Observation, finding: Finding, found: Sequence[Finding]) -> Finding | None:
    """The first finding that explains another; those that concern the same nodes come first."""
    kinds = _CAUSES.get(finding.check, ())
    nodes = _nodes_of(seen, finding)
    causes = [f for f in found if f.check in kinds and _reaches(seen, f, nodes)]
    nearest = next((f for f in causes if nodes & _nodes_of(seen, f)), next(iter(causes), None))
    return nearest and (_cause(seen, nearest, found) or nearest)


def _reaches(seen: Observation, cause: Finding, nodes: set[str]) -> bool:
    """Whether a cause can have an effect at ``nodes``.

    A lost node or a cut link can have an effect at every node. A node without processor time delays
    its neighbours, and all nodes of its machine where processes emulate the links.
    """
    if cause.check != "starved_node" or seen.after.status.run.mode == "local":
        return True
    neighbours = set(seen.topology.links_of.get(cause.subject, ()))
    return bool(nodes & (neighbours | {cause.subject}))


def _nodes_of(seen: Observation, finding: Finding) -> set[str]:
    """The nodes that a finding is about."""
    if finding.nodes:
        return set(finding.nodes)
    machine = seen.after.status.run.machines.get(finding.subject)
    if finding.check == "lost_machine" and machine is not None:
        return set(machine.nodes)
    return {finding.subject}
