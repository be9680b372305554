"""Shortest paths of a topology, the same ones for whoever asks.

Fewest links first, then least delay; what is still equal is settled by the order of the topology's
links, so that every run and every node agrees. Routes towards one node form a tree: requests for
one name that go to one node meet on the way and never split again.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import networkx as nx

from innet.errors import PlanError
from innet.topology import Link, Topology


class Routes:
    """Next hops between the nodes of one topology."""

    def __init__(self, topology: Topology) -> None:
        self._name = topology.name
        self._graph = topology.graph()
        # Dividing by more than the sum of all delays keeps every path's delay term under one hop.
        self._delay_scale_s: float = 1.0 + sum(
            attributes["link"].delay_s for _, _, attributes in self._graph.edges(data=True)
        )
        self._gates = {n: next(iter(self._graph[n])) for n, d in self._graph.degree if d == 1}
        self._next_hops = cache(self._find_next_hops)

    def next_hop(self, node: str, towards: str) -> str:
        """The neighbour to which ``node`` sends what is meant for ``towards``.

        Raises:
            PlanError: one of them is unknown, or no path leads there.
        """
        # All that is behind one gate shares the gate's routes; hosts need no search of their own.
        gate = self._gates.get(towards, towards)
        if node == gate != towards:
            return towards
        hops = self._next_hops(gate)
        if node not in hops or node == towards:
            raise PlanError(
                f"no path leads from {node} to {towards} in topology {self._name}; "
                "add the missing link, or leave that node out of the group"
            )
        return hops[node]

    def path(self, node: str, towards: str) -> list[str]:
        """The nodes on the way, both ends included; one node when they are equal."""
        nodes = [node]
        while nodes[-1] != towards:
            nodes.append(self.next_hop(nodes[-1], towards))
        return nodes

    def _find_next_hops(self, towards: str) -> dict[str, str]:
        if towards not in self._graph:
            raise PlanError(
                f"topology {self._name} has no node {towards!r}; it has "
                + ", ".join(sorted(self._graph))
            )

        def weight(_u: str, _v: str, attributes: dict[str, Any]) -> float:
            link: Link = attributes["link"]
            return 1.0 + link.delay_s / self._delay_scale_s

        paths = nx.single_source_dijkstra_path(self._graph, towards, weight=weight)
        return {node: path[-2] for node, path in paths.items() if len(path) > 1}
