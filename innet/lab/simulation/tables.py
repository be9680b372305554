"""Routes and rules that the nodes of a simulation look up when they need them.

In a real run every node is told all of them. Here the nodes share one process: what all of them may
need is kept once, and a node learns what it asks for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from innet.errors import PlanError
from innet.plans import Interval, Plan
from innet.topology import Topology
from innet.topology.routes import Ends, Routes

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
        self._topology = topology
        self._routes = Routes(topology)
        self._plans: dict[str, Plan] = {}
        self._told: dict[str, dict[str, set[Interval]]] = {}

    def add_plan(self, prefix: str, plan: Plan) -> None:
        """Let every node evaluate the sums of ``plan`` under the name ``prefix`` by itself."""
        self._plans[prefix] = plan
        self._told[prefix] = {}

    def change_plan(self, prefix: str, plan: Plan) -> Mapping[str, set[Interval]]:
        """The sums under ``prefix`` are made elsewhere; what nodes have learned to evaluate."""
        self._plans[prefix] = plan
        return self._told[prefix]

    def remove_plan(self, prefix: str) -> None:
        """Nobody evaluates what is under ``prefix`` any more."""
        del self._plans[prefix], self._told[prefix]

    def change_routes(
        self, lost: Collection[str], cut: Collection[Ends]
    ) -> Iterator[tuple[str, str, int]]:
        """Lead round ``lost`` nodes and ``cut`` links from now on.

        Yields the routes that hold no more, for nodes to forget: node, prefix, face. They ask for
        others when they need them.
        """
        before, self._routes = self._routes, Routes(self._topology, lost, cut)
        for node, faces in self._faces.items():
            if len(faces) == 1:
                continue  # all ways are one
            for destination in self._names:
                if destination == node:
                    continue
                peer = _next_hop(before, node, destination)
                if peer is not None and peer != _next_hop(self._routes, node, destination):
                    yield node, f"{_NODES}{destination}", faces[peer]

    def route(self, node: int, name: str) -> tuple[str, int] | None:
        """The prefix and the face by which the node of that number reaches ``name``."""
        destination = name.removeprefix(_NODES)
        here = self._names[node]
        if destination in (name, here) or destination not in self._known:
            return None
        faces = self._faces[here]
        if len(faces) == 1:
            return "/n", 0  # all ways are one
        peer = _next_hop(self._routes, here, destination)
        return None if peer is None else (name, faces[peer])

    def rule(self, node: int, prefix: str, interval: str) -> Operands | None:
        """The operands by which the node of that number evaluates ``interval`` by itself."""
        plan = self._plans.get(prefix)
        if plan is None:
            return None
        try:
            wanted = Interval.parse(interval)
            rule = plan.fallback(self._names[node], wanted)
        except PlanError:
            return None  # a name of somebody's own making
        self._told[prefix].setdefault(self._names[node], set()).add(wanted)
        return [(str(operand.interval), f"{_NODES}{operand.node}") for operand in rule.operands]


def _next_hop(routes: Routes, node: str, destination: str) -> str | None:
    try:
        return routes.next_hop(node, destination)
    except PlanError:
        return None  # no path leads there
