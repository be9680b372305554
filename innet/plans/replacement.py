"""Another placement of the same expression, after nodes or links of the first are lost.

The expression of a group is fixed for its life, so the bits of a sum are the same wherever it is
made; only the node that serves it changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import pairwise

from innet.plans.expression import Interval
from innet.plans.plan import Placed, Plan, Rule
from innet.topology import Switch, Topology
from innet.topology.routes import Ends, Routes, ends_of


def place_without(
    plan: Plan, topology: Topology, lost: Collection[str], cut: Collection[Ends] = ()
) -> Plan:
    """The plan with every sum of ``lost`` nodes, or with an operand over a ``cut`` link, elsewhere.

    On another node that makes the same sum already, if there is one; else on the switch with slots
    that is nearest to the ranks below it; else on the hosts of those ranks, each for its share. A
    sum whose ranks are cut off from each other stays where it was: it has to wait for the return
    of the lost nodes, wherever it is made. A sum on a host stays while routes lead to its operands.

    Args:
        lost: its nodes that have failed.
        cut: its links that carry nothing.

    >>> place_without(plan, topology, ["spine0"]).nodes_for(Interval(0, 7))     # doctest: +SKIP
    ('spine1',)
    """
    moved = {Placed(rule.interval, rule.node) for rule in plan.rules if rule.node in lost}
    moved |= _asking_over(cut, plan, topology)
    live = Routes(topology, lost, cut)
    homes = _Successors(plan, topology, lost, live, moved)
    while further := homes.without_operands():  # the other switches of a rail that lost one
        moved |= further
        homes = _Successors(plan, topology, lost, live, moved)
    if not moved:
        return plan
    kept = {Placed(rule.interval, rule.node) for rule in plan.rules} - moved
    rules = [
        Rule(node, rule.interval, tuple(homes.asked(o, node) for o in rule.operands))
        for rule in plan.rules
        for node in homes.of(Placed(rule.interval, rule.node))
        if node == rule.node or Placed(rule.interval, node) not in kept
    ]
    replaced = replace(
        plan,
        roots=homes.roots(),
        rules=tuple({(rule.interval, rule.node): rule for rule in rules}.values()),
        why=f"{plan.why}\nWithout {', '.join((*sorted(lost), *sorted(map('--'.join, cut))))}, "
        "which is gone.".lstrip(),
    )
    replaced.validate()
    return replaced


def _asking_over(cut: Collection[Ends], plan: Plan, topology: Topology) -> set[Placed]:
    """The sums on switches that received an operand over a link that is cut."""
    if not cut:
        return set()
    routes = Routes(topology)
    return {
        Placed(rule.interval, rule.node)
        for rule in plan.rules
        if rule.node not in plan.ranks
        for operand in rule.operands
        if any(ends_of(*hop) in cut for hop in pairwise(routes.path(rule.node, operand.node)))
    }


class _Successors:
    """Chooses the nodes that make the ``moved`` sums."""

    def __init__(
        self,
        plan: Plan,
        topology: Topology,
        lost: Collection[str],
        routes: Routes,
        moved: Collection[Placed],
    ) -> None:
        self._plan = plan
        self._moved = frozenset(moved)
        self._routes = routes
        self._able = tuple(
            name
            for name in topology.switches
            if name not in lost
            and isinstance(node := topology.nodes[name], Switch)
            and node.slots > 0
        )
        self._sums = Counter(rule.node for rule in plan.rules)
        self._found: dict[Interval, tuple[str, ...]] = {}

    def of(self, placed: Placed) -> tuple[str, ...]:
        """The nodes that make the sum ``placed``: its own node, or the successors of that."""
        if placed not in self._moved or placed.interval.is_single:
            return (placed.node,)
        if placed.interval not in self._found:
            self._found[placed.interval] = self._find(placed.interval) or (placed.node,)
        return self._found[placed.interval]

    def asked(self, operand: Placed, asker: str) -> Placed:
        """The node that serves an operand to ``asker``; several successors share requesters."""
        makers = self._plan.nodes_for(operand.interval)
        others = (node for maker in makers for node in self.of(operand._replace(node=maker)))
        found = self.of(operand)
        nodes = self._reached(asker, found) or self._reached(asker, others) or found
        if asker in nodes:
            return operand._replace(node=asker)
        ranks = self._plan.ranks
        turn = ranks.index(asker) if asker in ranks else 0
        return operand._replace(node=nodes[turn % len(nodes)])

    def without_operands(self) -> set[Placed]:
        """The other sums that routes lead to no node for an operand of."""
        return {
            placed
            for rule in self._plan.rules
            if (placed := Placed(rule.interval, rule.node)) not in self._moved
            for operand in rule.operands
            if not self._reached(rule.node, self.of(operand))
        }

    def roots(self) -> tuple[Placed, ...]:
        """The roots of the plan. Shards keep their root's interval, and so their bits."""
        roots = self._plan.roots
        if len({root.interval for root in roots}) == 1:
            found = (Placed(root.interval, node) for root in roots for node in self.of(root))
            return tuple(dict.fromkeys(found))
        return tuple(root._replace(node=self.of(root)[0]) for root in roots)

    def _find(self, interval: Interval) -> tuple[str, ...]:
        members = tuple(self._plan.ranks[rank] for rank in interval.members(self._plan.size))
        makers = self._plan.nodes_for(interval)
        others = [node for node in makers if Placed(interval, node) not in self._moved]
        if reached := [node for node in others if self._reaches(node, members)]:
            return tuple(reached)
        if able := [node for node in self._able if self._reaches(node, members)]:
            nearest = min(able, key=lambda node: (*self._distance(node, members), self._sums[node]))
            self._sums[nearest] += 1
            return (nearest,)
        return tuple(member for member in members if self._reaches(member, members))

    def _reached(self, asker: str, nodes: Iterable[str]) -> tuple[str, ...]:
        return tuple(node for node in nodes if self._routes.reaches(asker, node))

    def _reaches(self, node: str, members: tuple[str, ...]) -> bool:
        return all(self._routes.reaches(member, node) for member in members)

    def _distance(self, node: str, members: tuple[str, ...]) -> tuple[int, int]:
        links = [len(self._routes.path(member, node)) for member in members]
        return max(links), sum(links)
