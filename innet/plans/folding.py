"""Folds each rack of a plan into one: ranks behind one switch that adds them, and nothing else.

Racks are alike in all trees of a plan, and are most of a large one. Costs walk the folded plan, in
which a rack's switch stands for its ranks, and count what is within racks once for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from innet.plans.expression import Interval
from innet.plans.plan import Placed, Plan, Rule
from innet.topology.routes import Routes


@dataclass(frozen=True, slots=True)
class Rack:
    """Ranks whose contributions one switch adds, and makes nothing else of.

    Attributes:
        switch: the only neighbour of the hosts.
        interval: of its sum in the folded plan: a rank of its own.
        hosts: of the ranks.
    """

    switch: str
    interval: Interval
    hosts: tuple[str, ...]


@dataclass(slots=True)
class FoldedPlan:
    """A plan in which the switches of :attr:`racks` are the ranks, beside hosts in none.

    Attributes:
        plan: with intervals of these ranks.
        racks: by switch.
    """

    plan: Plan
    racks: dict[str, Rack]
    _ahead: frozenset[Placed] | None = None

    def arriving_ahead(self, routes: Routes) -> frozenset[Placed]:
        """The result of :meth:`Plan.arriving_ahead`, computed once."""
        if self._ahead is None:
            self._ahead = self.plan.arriving_ahead(routes)
        return self._ahead

    def ranks_with_racks(self) -> Iterator[str]:
        """The nodes of all ranks, also those in racks."""
        for node in self.plan.ranks:
            yield from self.racks[node].hosts if node in self.racks else (node,)


def fold(plan: Plan, routes: Routes) -> FoldedPlan:
    """Fold the racks of ``plan``; without racks, return it unchanged."""
    rules = _rules_of_racks(plan, routes)
    if not rules:
        return FoldedPlan(plan, {})
    begins = {rule.interval.first: rule for rule in rules}
    last = rules[-1].interval
    first = last.first if last.first > last.last else 0  # a rack may pass over rank 0
    nodes: list[str] = []
    first_of: dict[int, int] = {}
    last_of: dict[int, int] = {}
    rank = first
    while not nodes or rank != first:
        rule = begins.get(rank)
        first_of[rank] = len(nodes)
        rank = rank if rule is None else rule.interval.last
        last_of[rank] = len(nodes)
        nodes.append(plan.ranks[rank] if rule is None else rule.node)
        rank = (rank + 1) % plan.size

    def folded(placed: Placed) -> Placed:
        interval = placed.interval
        return Placed(Interval(first_of[interval.first], last_of[interval.last]), placed.node)

    within = set(map(id, rules))
    racks = {
        rule.node: Rack(
            rule.node,
            Interval.single(first_of[rule.interval.first]),
            tuple(operand.node for operand in rule.operands),
        )
        for rule in rules
    }
    kept = [
        Rule(
            rule.node, folded(Placed(rule.interval, "")).interval, tuple(map(folded, rule.operands))
        )
        for rule in plan.rules
        if id(rule) not in within
    ]
    roots = tuple(map(folded, plan.roots))
    return FoldedPlan(Plan(plan.algorithm, tuple(nodes), roots, tuple(kept)), racks)


def _rules_of_racks(plan: Plan, routes: Routes) -> list[Rule]:
    """The rules that add a rack, in the order of its ranks."""
    made_at = Counter(rule.node for rule in plan.rules)
    others = {*plan.ranks, *(root.node for root in plan.roots)}
    alone = [rule for rule in plan.rules if made_at[rule.node] == 1 and rule.node not in others]
    if not alone:
        return []
    asked = Counter(
        operand.interval.first
        for rule in plan.rules
        for operand in rule.operands
        if operand.interval.is_single
    )
    found = [
        rule
        for rule in alone
        if all(
            operand.interval.is_single
            and asked[operand.interval.first] == 1
            and routes.gate(operand.node) == rule.node
            for operand in rule.operands
        )
    ]
    return sorted(found, key=lambda rule: rule.interval.first)
