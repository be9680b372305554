"""Shortest paths of a topology: those that the network forwards along, and that plans count on.

Least delay first, then fewest links. Destinations behind paths of equal cost are dealt out over
them in turn, the same way for all requesters (D-mod-K routing: Zahavi, "D-Mod-K routing providing
non-blocking traffic for shift permutations on real life fat trees", 2010), so the uplinks of a fat
tree share the load. Routes towards one node form a tree: requests for one name that go to one node
meet on the way and never split again. Hosts forward nothing for others, however many links they
have: switches that only hosts join do not reach each other.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from functools import cache
from itertools import pairwise
from typing import TypeAlias

from innet.errors import PlanError
from innet.topology.model import Topology
from innet.topology.parts import Link

# Costs are whole numbers, so that equal paths compare equal: nanoseconds above links.
_LINK_COST = 1
_NANOSECOND_COST = 1 << 20


Ends: TypeAlias = tuple[str, str]
"""The nodes that a link joins, in the order of the alphabet: a name for it."""


def ends_of(node: str, peer: str) -> Ends:
    """The name of the link between two nodes.

    >>> ends_of("spine0", "leaf1")
    ('leaf1', 'spine0')
    """
    return (node, peer) if node <= peer else (peer, node)


class Routes:
    """Next hops between the nodes of one topology.

    Args:
        without: nodes of it that are gone.
        cut: links of it that carry nothing.
    """

    def __init__(
        self, topology: Topology, without: Collection[str] = (), cut: Collection[Ends] = ()
    ) -> None:
        self._name = topology.name
        gone = frozenset(without)
        missing = frozenset(ends_of(*ends) for ends in cut)
        self._links = {
            node: {
                peer: link
                for peer, link in links.items()
                if peer not in gone and ends_of(node, peer) not in missing
            }
            for node, links in topology.links_of.items()
            if node not in gone
        }
        neighbours = {
            node: [(peer, _cost(link)) for peer, link in links.items()]
            for node, links in self._links.items()
        }
        self._ends = frozenset(
            name for name in topology.nodes if topology.role_of(name) != "switch"
        )
        self._numbers = {n: i for i, n in enumerate((*topology.hosts, *topology.switches))}
        self._gates = {n: peers[0][0] for n, peers in neighbours.items() if len(peers) == 1}
        self._machine_of = topology.machine_of
        # No other path leads through nodes behind one gate, which are nearly all of a large
        # network: searches leave them out.
        self._neighbours = {
            node: [(peer, cost) for peer, cost in peers if peer not in self._gates]
            for node, peers in neighbours.items()
            if node not in self._gates
        }
        self._known_hops: dict[tuple[str, str], str] = {}
        self._costs = cache(self._find_costs)
        self._equal = cache(self._find_equal)
        self._dealt_before = cache(self._count_dealt_before)

    def next_hop(self, node: str, towards: str) -> str:
        """The neighbour to which ``node`` sends what is meant for ``towards``."""
        # A node behind one gate is as far as the gate; hosts need no search of their own.
        hop = self._known_hops.get((node, towards))
        if hop is None:
            hop = self._find_next_hop(node, towards)
            if towards not in self._gates and node not in self._gates:  # others are too many
                self._known_hops[node, towards] = hop
        return hop

    def _find_next_hop(self, node: str, towards: str) -> str:
        gate = self._gates.get(towards, towards)
        if node == gate != towards:
            return towards
        equal = self._equal(node, gate) if self._may_reach(node, towards) else ()
        if not equal:
            raise PlanError(
                f"no path leads from {node} to {towards} in topology {self._name}; "
                "add the missing link, or leave that node out of the group"
            )
        turn = self._numbers[towards]
        if len(equal) > 1:
            turn //= self._dealt_before(node, gate)
        return equal[turn % len(equal)]

    def reaches(self, node: str, towards: str) -> bool:
        """Whether a path leads from one to the other."""
        if node == towards or self._gates.get(node) == towards:
            return towards in self._links
        gate = self._gates.get(towards, towards)
        if node not in self._links or gate not in self._links or not self._may_reach(node, towards):
            return False
        return node == gate or self._gates.get(node, node) in self._costs(gate)

    def path(self, node: str, towards: str) -> list[str]:
        """The nodes on the way, both ends included; one node when they are equal."""
        nodes = [node]
        while nodes[-1] != towards:
            nodes.append(self.next_hop(nodes[-1], towards))
        return nodes

    def distance(self, node: str, towards: str) -> int:
        """The cost of a route to ``towards``: one for each link on the path, and for each
        microsecond of its delay."""
        path = self.path(node, towards)
        links = (self._links[near][far] for near, far in pairwise(path))
        return sum(1 + round(link.delay_s * 1e6) for link in links)

    def gate(self, node: str) -> str | None:
        """The only neighbour of ``node``, if it has but one."""
        return self._gates.get(node)

    def _may_reach(self, node: str, towards: str) -> bool:
        """Whether no host is the only neighbour of one of the two, and not the other's machine.

        A host forwards for its own workers, and for nobody else.
        """
        return node != towards and all(
            self._gates.get(end) not in self._ends
            or self._gates[end] in (self._machine_of[end], self._machine_of[other])
            for end, other in ((node, towards), (towards, node))
        )

    def _find_equal(self, node: str, towards: str) -> tuple[str, ...]:
        """The neighbours of ``node`` on paths of least cost; none when no path leads there."""
        costs = self._costs(towards)
        gate = self._gates.get(node)
        if gate is not None:
            return (gate,) if gate in costs else ()
        if node not in costs:
            return ()
        return tuple(
            peer
            for peer, cost in self._neighbours[node]
            if costs.get(peer, -1) + cost == costs[node]
            and (peer == towards or peer not in self._ends)
        )

    def _count_dealt_before(self, node: str, towards: str) -> int:
        """Among how many paths the nodes before ``node`` have dealt out what comes to it.

        The destinations that reach ``node`` then differ in the rest of the division alone.
        """
        costs = self._costs(towards)
        for peer, cost in self._neighbours[node]:
            if costs.get(peer) == costs[node] + cost:
                return len(self._equal(peer, towards)) * self._dealt_before(peer, towards)
        return 1

    def _find_costs(self, towards: str) -> Mapping[str, int]:
        """Dijkstra's algorithm; nodes of equal cost are settled together."""
        if towards not in self._links:
            raise PlanError(
                f"topology {self._name} has no node {towards!r}; it has "
                + ", ".join(sorted(self._links))
            )
        costs = {towards: 0}
        at_cost = {0: [towards]}
        pending = [0]
        while pending:
            cost = heapq.heappop(pending)
            for node in at_cost.pop(cost):
                if costs[node] < cost or (node in self._ends and node != towards):
                    continue  # reached by a cheaper way meanwhile, or forwards nothing
                for peer, step in self._neighbours.get(node, ()):
                    there = cost + step
                    if there >= costs.get(peer, there + 1):
                        continue
                    costs[peer] = there
                    if there in at_cost:
                        at_cost[there].append(peer)
                    else:
                        at_cost[there] = [peer]
                        heapq.heappush(pending, there)
        return costs


def _cost(link: Link) -> int:
    return round(link.delay_s * 1e9) * _NANOSECOND_COST + _LINK_COST
