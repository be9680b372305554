"""Routes and rules that the nodes of a simulation look up when they need them.

In a real run every node is told all of them. Here the nodes share one process: what all of them may
need is kept once, and a node learns what it asks for.
"""

from __future__ import annotations

from collections.abc import Mapping

from innet.errors import PlanError
from innet.plans import Interval, Plan
from innet.topology import Topology
from innet.topology.routes import Routes

Operands = list[tuple[str, str]]
"""Intervals with the hint for each, such as ``("0-3", "/n/s1")``."""

_NODES = "/n/"


class SharedTables:
    """What every node could be told.

    It knows nothing of the nodes themselves, which hold it.
    """

    def __init__(self, topology: Topology, faces: Mapping[str, Mapping[str, int]]) -> None:
        """
        Args:
            topology: whose nodes are numbered in its order.
            faces: for each node, from each neighbour's name to the face towards it.
        """
        self._names = tuple(topology.nodes)
        self._known = frozenset(self._names)
        self._faces = faces
        self._routes = Routes(topology)
        self._plans: dict[str, Plan] = {}

    def add_plan(self, prefix: str, plan: Plan) -> None:
        """Let every node evaluate the sums of ``plan`` under the name ``prefix`` by itself."""
        self._plans[prefix] = plan

    def remove_plan(self, prefix: str) -> None:
        """Nobody evaluates what is under ``prefix`` any more."""
        del self._plans[prefix]

    def route(self, node: int, name: str) -> tuple[str, int] | None:
        """The prefix and the face by which the node of that number reaches ``name``."""
        destination = name.removeprefix(_NODES)
        here = self._names[node]
        if destination in (name, here) or destination not in self._known:
            return None
        faces = self._faces[here]
        if len(faces) == 1:
            return "/n", 0  # all ways are one
        return name, faces[self._routes.next_hop(here, destination)]

    def rule(self, node: int, prefix: str, interval: str) -> Operands | None:
        """The operands by which the node of that number evaluates ``interval`` by itself."""
        plan = self._plans.get(prefix)
        if plan is None:
            return None
        try:
            rule = plan.fallback(self._names[node], Interval.parse(interval))
        except PlanError:
            return None  # a name of somebody's own making
        return [(str(operand.interval), f"{_NODES}{operand.node}") for operand in rule.operands]
