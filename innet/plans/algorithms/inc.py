"""In-network aggregation: switches add the tensors that pass them, in several levels.

The aggregation tree of SHArP (R. Graham et al., "Scalable Hierarchical Aggregation Protocol
(SHArP)", COMHPC 2016), chosen from the topology instead of configured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from innet.errors import PlanError
from innet.plans.aggregation_tree import AggregationTree, TreeReduction, reduce_along
from innet.plans.cost import CostModel, PlanCost
from innet.plans.expression import Interval
from innet.plans.load import NO_LOAD, Load
from innet.plans.plan import Placed, Plan, Rule
from innet.topology import Switch, Topology
from innet.topology.routes import Routes

_TYPICAL_BYTES = 1 << 20
"""Roots are compared for a tensor of this size: both rates and delays matter."""
_ABOUT_AS_FAST = 1.02
_MOST_CHOICES = 8
"""Numbers of trees that are compared: each takes as long as a plan."""


def plan_in_network(
    topology: Topology,
    ranks: tuple[str, ...],
    *,
    roots: Sequence[str] | None = None,
    place: Mapping[Interval | str, str] | None = None,
    load: Load = NO_LOAD,
) -> Plan:
    """Sums on the switches, along the tree with the lowest cost.

    Where several roots are equally good and make the same expression (two spines), the shards are
    dealt to all of them. Switches without slots add nothing; their parents take their operands.
    When no switch has slots, the hosts add, each for its share of the shards.

    Args:
        ranks: the node of each rank. Ranks below one switch should be consecutive, as
            :func:`~innet.plans.aggregation_tree.rank_order` numbers them; others are added higher
            up.
        roots: use these nodes as roots, at any cost.
        place: move these intervals to other nodes; the expression does not change.
        load: what others use of the network: of equally good roots, as many share the shards as
            make the operation fastest.

    Raises:
        PlanError: a named node is not in the topology, the named roots need different expressions,
            an interval to move is not in the plan, or a host cannot be reached.
    """
    _check_known(topology, [*(roots or ()), *(place or {}).values()])
    able = able_switches(topology, load)
    model = CostModel(topology, load=load)
    if len(ranks) == 1:
        plan = Plan("inc", ranks, (Placed(Interval.single(0), ranks[0]),), ())
    elif roots is not None:
        plan = _plan_for_roots(topology, ranks, able, roots)
    elif _reached(model, ranks, able):
        plan = _plan_best_roots(model, ranks, able)
    else:
        plan = _plan_on_hosts(ranks)
    return _move(plan, {_interval(i): node for i, node in (place or {}).items()})


def _plan_for_roots(
    topology: Topology, ranks: tuple[str, ...], able: frozenset[str], roots: Sequence[str]
) -> Plan:
    if not roots:
        raise PlanError("the list of roots is empty; name a node, or leave the option out")
    routes = Routes(topology)
    plans = [_plan_below(routes, ranks, able, root, forced=True) for root in dict.fromkeys(roots)]
    for root, plan in zip(roots, plans, strict=False):
        if not _same_expression(plan, plans[0]):
            raise PlanError(
                f"{roots[0]} and {root} cannot both be roots: a sum at {root} would be another "
                "expression, with other bits; name roots that see the same subtrees, or only one"
            )
    return _merge(plans, f"The roots were given: {', '.join(dict.fromkeys(roots))}.")


def able_switches(topology: Topology, load: Load = NO_LOAD) -> frozenset[str]:
    """The switches that have slots for sums."""
    return frozenset(
        name
        for name in topology.switches
        if isinstance(node := topology.nodes[name], Switch)
        and node.slots > 0
        and load.has_slots(name)
    )


@dataclass(frozen=True, slots=True)
class TreeChoice:
    """The sums of a plan along one or more trees, and what that costs.

    Attributes:
        trees: a plan of each, with the cost of it alone; the fastest first.
        possible: how many trees there are to choose from.
        cost: of all trees together.
    """

    trees: Sequence[tuple[float, Plan]]
    possible: int
    cost: PlanCost

    @property
    def roots(self) -> tuple[str, ...]:
        """The roots of the trees."""
        return tuple(plan.roots[0].node for _, plan in self.trees)

    def plan(self) -> Plan:
        """One plan with all trees; large ones take time to make."""
        return _merge([plan for _, plan in self.trees], _explain_roots(self))


class TreeSearch:
    """The trees of a group, found once and compared under any load."""

    def __init__(
        self,
        model: CostModel,
        ranks: tuple[str, ...],
        able: frozenset[str],
        like: Plan | None = None,
    ) -> None:
        """
        Args:
            model: of the network, with any load.
            ranks: of the group.
            able: the switches that may add.
            like: a plan whose expression the trees are to have.
        """
        self._ranks = ranks
        self._able = able
        self._like = like
        self._routes = model.routes
        idle = model.beside(NO_LOAD)  # nothing is faster beside others
        tops = _tops(model, ranks, able)
        least_s = {top: idle.least_s(ranks, top, _TYPICAL_BYTES) for top in set(tops.values())}
        self.possible = len(least_s)
        """How many nodes may make the sum of all ranks."""
        # A root that only sees one finished sum pass leads to the plan of the node that made it.
        self._roots = sorted(
            ((least_s[top], root) for root, top in tops.items()), key=itemgetter(0)
        )
        self._plans: dict[str, Plan | None] = {}

    def trees(self, model: CostModel) -> list[tuple[float, Plan]]:
        """The plans of one tree with their costs, the fastest first; slow ones may be missing."""
        found: dict[Placed, tuple[float, Plan]] = {}
        best_s = math.inf
        # Most switches of a large network are far from the middle, which shows without a plan.
        for least_s, root in self._roots:
            if least_s > best_s * (1 + 1e-9):
                break
            plan = self._plan_of(root)
            if plan is not None and plan.roots[0] not in found:
                cost_s = _rounded(model.estimate(plan, _TYPICAL_BYTES).total_s)
                found[plan.roots[0]] = cost_s, plan
                best_s = min(best_s, cost_s)
        return sorted(found.values(), key=itemgetter(0))

    def choices(
        self, model: CostModel, size_bytes: int = _TYPICAL_BYTES, *, each: bool = False
    ) -> list[TreeChoice]:
        """The fastest tree, that with the next ones, and so on; those with more trees come first.

        Equally good trees come together, unless ``each`` number of trees is of interest.
        """
        return _together(self.trees(model), model, size_bytes, each=each)

    def fastest(self, model: CostModel) -> TreeChoice | None:
        """The most trees that are about as fast as the fastest: they share work and slots.

        ``None`` where no tree has the expression.
        """
        choices = self.choices(model)
        return _fastest(choices) if choices else None

    def _plan_of(self, root: str) -> Plan | None:
        if root not in self._plans:
            plan = _plan_below(self._routes, self._ranks, self._able, root)
            is_like = self._like is None or _same_expression(plan, self._like)
            self._plans[root] = plan if is_like else None
        return self._plans[root]


def _fastest(choices: Sequence[TreeChoice]) -> TreeChoice:
    enough_s = min(choice.cost.total_s for choice in choices) * _ABOUT_AS_FAST
    return next(choice for choice in choices if choice.cost.total_s <= enough_s)


def _together(
    trees: Sequence[tuple[float, Plan]], model: CostModel, size_bytes: int, *, each: bool = False
) -> list[TreeChoice]:
    costs = [cost for cost, _ in trees]
    numbers = [
        n for n in range(1, len(costs) + 1) if each or n == len(costs) or costs[n] > costs[n - 1]
    ]
    return [
        TreeChoice(
            trees[:number],
            len(trees),
            model.estimate_together([plan for _, plan in trees[:number]], size_bytes),
        )
        for number in reversed(numbers[:_MOST_CHOICES])
    ]


def _explain_roots(choice: TreeChoice) -> str:
    roots = choice.roots
    several = f"{len(roots)} roots share the shards" if len(roots) > 1 else "Root"
    return (
        f"{several}: {', '.join(roots)}. Of {choice.possible} possible, that is fastest beside "
        "other traffic."
    )


def _plan_best_roots(model: CostModel, ranks: tuple[str, ...], able: frozenset[str]) -> Plan:
    search = TreeSearch(model, ranks, able)
    trees = search.trees(model)
    best_cost, best = trees[0]
    like_best = [(cost, plan) for cost, plan in trees if _same_expression(plan, best)]
    if not model.load.is_empty:
        return _fastest(_together(like_best, model, _TYPICAL_BYTES)).plan()
    chosen = [plan for cost, plan in like_best if cost == best_cost]
    names = ", ".join(plan.roots[0].node for plan in chosen)
    several = f"{len(chosen)} equally good roots share the shards" if len(chosen) > 1 else "Root"
    reason = (
        "It is the only switch that can add everything."
        if search.possible == 1
        else f"Of {search.possible} possible roots, none is nearer to the hosts or faster to reach."
    )
    return _merge(chosen, f"{several}: {names}. {reason}")


def _tops(model: CostModel, ranks: tuple[str, ...], able: frozenset[str]) -> dict[str, str]:
    """The nodes that make the sum of all ranks, by root."""
    roots = _reached(model, ranks, able)
    return {root: _top_below(model.routes, ranks, root) for root in roots}


def _reached(model: CostModel, ranks: tuple[str, ...], able: frozenset[str]) -> tuple[str, ...]:
    """The able switches that routes lead to from all ranks: a rail may lack some hosts."""
    routes = model.routes
    apart = {routes.gate(rank) or rank for rank in ranks}
    return tuple(
        root
        for root in model.switches
        if root in able and all(routes.reaches(node, root) for node in apart)
    )


def _top_below(routes: Routes, ranks: tuple[str, ...], root: str) -> str:
    """The node that makes the sum of all ranks when all nodes on the way to ``root`` add."""
    apart = {routes.gate(rank) or rank: rank for rank in ranks}
    if len(apart) == 1:
        return root
    tree = AggregationTree.grow(routes, root, tuple(apart.values()))
    holders = frozenset(ranks)
    top = root
    while len(tree.children[top]) == 1 and top not in holders:
        (top,) = tree.children[top]
    return top


def _plan_below(
    routes: Routes,
    ranks: tuple[str, ...],
    able: frozenset[str],
    root: str,
    *,
    forced: bool = False,
) -> Plan:
    """The plan of the tree below ``root``.

    A root with a single child sees one finished sum pass; then that child is the root, unless
    forced.
    """
    tree = AggregationTree.grow(routes, root, ranks)
    reduction = reduce_along(tree, ranks, able | {root})
    top = reduction.top
    assert top is not None, "reduce_along always ends with the full interval"
    plan = Plan("inc", ranks, (top,), tuple(reduction.rules), _explain_splits(reduction, root))
    return _move(plan, {top.interval: root}) if forced else plan


def _plan_on_hosts(ranks: tuple[str, ...]) -> Plan:
    everything = Interval(0, len(ranks) - 1)
    operands = tuple(Placed(Interval.single(rank), host) for rank, host in enumerate(ranks))
    return Plan(
        algorithm="inc",
        ranks=ranks,
        roots=tuple(Placed(everything, host) for host in ranks),
        rules=tuple(Rule(host, everything, operands) for host in ranks),
        why="No switch has slots, so the hosts add, each for its share of the shards.",
    )


def _merge(plans: Sequence[Plan], why: str) -> Plan:
    """One plan with the roots of all; they have the same expression."""
    rules = {(rule.interval, rule.node): rule for plan in plans for rule in plan.rules}
    remarks = dict.fromkeys(plan.why for plan in plans if plan.why)
    return replace(
        plans[0],
        roots=tuple(dict.fromkeys(plan.roots[0] for plan in plans)),
        rules=tuple(rules.values()),
        why="\n".join([why, *remarks]),
    )


def _move(plan: Plan, place: Mapping[Interval, str]) -> Plan:
    """``plan`` with some intervals on other nodes; its expression does not change."""
    for interval in place:
        if interval.is_single or not plan.nodes_for(interval):
            raise PlanError(
                f"interval {interval} cannot be placed, this plan does not make it; "
                f"it makes {', '.join(map(str, plan.intervals)) or 'no sum at all'}"
            )

    def moved(placed: Placed) -> Placed:
        return placed._replace(node=place.get(placed.interval, placed.node))

    rules = [
        Rule(
            place.get(rule.interval, rule.node),
            rule.interval,
            tuple(moved(operand) for operand in rule.operands),
        )
        for rule in plan.rules
    ]
    return replace(
        plan,
        roots=tuple(dict.fromkeys(moved(root) for root in plan.roots)),
        rules=tuple({(rule.interval, rule.node): rule for rule in rules}.values()),
    )


def _same_expression(plan: Plan, other: Plan) -> bool:
    return plan.expressions == other.expressions


def _explain_splits(reduction: TreeReduction, root: str) -> str:
    return "\n".join(
        f"{node} leaves {', '.join(map(str, parts))} to its parent, as the ranks below it are not "
        "consecutive; number the ranks by rank_order(topology) to have one sum there."
        for node, parts in reduction.split.items()
        if node != root
    )


def _rounded(time_s: float) -> float:
    """Costs of mirrored trees differ in the last bits, by the order of addition."""
    return float(f"{time_s:.9e}")


def _interval(interval: Interval | str) -> Interval:
    return Interval.parse(interval) if isinstance(interval, str) else interval


def _check_known(topology: Topology, names: Sequence[str]) -> None:
    for name in names:
        if name not in topology.nodes:
            raise PlanError(
                f"topology {topology.name} has no node {name!r} to place a sum on; "
                f"its switches are {', '.join(topology.switches) or 'none'}"
            )
