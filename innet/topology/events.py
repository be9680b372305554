"""Scheduled and random events of a network: what happens to which node or link, and when.

Written in topology and workload files (:mod:`innet.topology.document`), applied by
simulations (:mod:`innet.lab.simulation.event_schedule`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from innet.topology.model import Topology

TopologyEventKind = Literal["link-down", "link-change", "crash", "pause", "clock-jump", "straggle"]
Anything = Literal["any host", "any switch", "any node", "any link"]

Target = tuple[str, ...]
"""A node, or the two nodes of a link."""


@dataclass(frozen=True)
class TopologyEvent:
    """An event that happens once, periodically or at random.

    Attributes:
        targets: where it happens; one of several is drawn each time. :data:`Anything`: all nodes
            or links of a kind.
        at_s: time of the first event; random events begin then.
        every_s: period of further events.
        rate_per_s: mean rate of random events, with exponential times between them.
        until_s: no event begins from this time on.
        lasts_s: time after which it is undone; ``None``: never. A crashed node restarts empty.
        link_settings: ``link-change``: fields of a :class:`~innet.topology.Link`.
        jump_s: ``clock-jump``: seconds by which the clock advances.
        factor: ``straggle``: factor of the computing time.
    """

    kind: TopologyEventKind
    targets: tuple[Target, ...] | Anything
    at_s: float = 0.0
    every_s: float | None = None
    rate_per_s: float | None = None
    until_s: float | None = None
    lasts_s: float | None = None
    link_settings: Mapping[str, Any] = field(default_factory=dict)
    jump_s: float = 0.0
    factor: float = 1.0


def targets_of(event: TopologyEvent, topology: Topology) -> list[Target]:
    """The possible targets of the event; one of them is drawn each time."""
    if not isinstance(event.targets, str):
        return list(event.targets)
    if event.targets == "any link":
        return [link.nodes for link in topology.links if not link.in_memory]
    nodes = {
        "any host": topology.machines,
        "any switch": topology.separate_switches,
        "any node": (*topology.machines, *topology.separate_switches),
    }
    return [(node,) for node in nodes[event.targets]]


def nodes_hit(event: TopologyEvent, node: str, topology: Topology) -> tuple[str, ...]:
    """The nodes that an event of ``node`` affects: with a host, its workers."""
    workers = topology.workers_of.get(node, ())
    return workers if workers and event.kind == "straggle" else (node, *workers)


def event_problem(event: TopologyEvent, topology: Topology) -> str | None:
    """Why the event cannot happen in this topology; ``None`` if it can."""
    targets = targets_of(event, topology)
    if not targets:
        return f"{topology.name} has nothing for {event.targets!r}"
    for target in targets:
        for node in target:
            if node not in topology.nodes:
                return f"{topology.name} has no node {node!r}"
        if len(target) == 2 and not topology.graph().has_edge(*target):
            return f"{topology.name} has no link {' -- '.join(target)}"
        if event.kind == "straggle" and topology.role_of(target[0]) == "switch":
            return f"{target[0]} is not a host, and computes nothing that could take longer"
    return None
