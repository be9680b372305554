"""Which nodes and links of a topology an event can happen to."""

from __future__ import annotations

from innet.topology.events import Event, Target
from innet.topology.model import Topology


def targets_of(event: Event, topology: Topology) -> list[Target]:
    """Where the event can happen; one of them is drawn each time."""
    if not isinstance(event.targets, str):
        return list(event.targets)
    if event.targets == "any link":
        return [link.nodes for link in topology.links]
    nodes = {
        "any host": topology.hosts,
        "any switch": topology.switches,
        "any node": (*topology.hosts, *topology.switches),
    }
    return [(node,) for node in nodes[event.targets]]


def event_problem(event: Event, topology: Topology) -> str | None:
    """Why the event cannot happen in this topology, in words; ``None``: it can."""
    targets = targets_of(event, topology)
    if not targets:
        return f"{topology.name} has nothing for {event.targets!r}"
    for target in targets:
        for node in target:
            if node not in topology.nodes:
                return f"{topology.name} has no node {node!r}"
        if len(target) == 2 and not topology.graph().has_edge(*target):
            return f"{topology.name} has no link {' -- '.join(target)}"
        if event.kind == "straggle" and target[0] not in topology.hosts:
            return f"{target[0]} is no host, and computes nothing that could take longer"
    return None
