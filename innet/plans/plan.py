"""A group's plan: how each interval is made from smaller ones, and on which nodes.

The first file to read here. A :class:`Plan` is immutable and knows nothing of segments, sizes or
element types: a rule holds for every operation of its group. Only the *roots* are chosen per
segment (see :meth:`Plan.root_for`), which is how one plan spreads its work over several nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from innet.errors import PlanError
from innet.plans.expression import Interval, is_partition
from innet.quantities import counted

if TYPE_CHECKING:
    from innet.topology.routes import Routes


class Placed(NamedTuple):
    """An interval and the node that serves it (the requester's ForwardingHint)."""

    interval: Interval
    node: str

    def __str__(self) -> str:
        return f"{self.interval} at {self.node}"


class AheadSum(NamedTuple):
    """A sum that a node begins before another node requests it.

    Attributes:
        shard: for which it is needed.
        interval: of the sum.
        nodes_to_root: nodes that add to it after this one.
    """

    shard: int
    interval: Interval
    nodes_to_root: int


@dataclass(frozen=True, slots=True)
class Rule:
    """``node`` makes ``interval`` by adding ``operands`` from left to right.

    Attributes:
        node: where the rule is installed.
        interval: what it makes.
        operands: at least two, each with the node that serves it.
        primary: whether this node serves the interval to others. Otherwise the rule is a fallback:
            the node evaluates the interval itself when the serving node refuses or is dead.
        ahead_to: as :meth:`Plan.ahead_to` says, in the rules of one node
            (:meth:`Plan.primary_rules`).
    """

    node: str
    interval: Interval
    operands: tuple[Placed, ...]
    primary: bool = True
    ahead_to: tuple[str, ...] = ()

    def __str__(self) -> str:
        operands = " + ".join(f"({operand})" for operand in self.operands)
        return f"{self.interval} = {operands}"


@dataclass(frozen=True)
class Plan:
    """How a group of N ranks reduces.

    Attributes:
        algorithm: name of the algorithm that made the plan.
        ranks: the node of each rank; ``ranks[r]`` serves the contribution of rank r.
        roots: full intervals with the nodes that serve them, indexed by shard.
        rules: the primary rules of all nodes.
        why: the reasons for this plan, in sentences.
    """

    algorithm: str
    ranks: tuple[str, ...]
    roots: tuple[Placed, ...]
    rules: tuple[Rule, ...]
    why: str = ""

    @property
    def size(self) -> int:
        """N, the number of ranks."""
        return len(self.ranks)

    def root_for(self, shard: int) -> Placed:
        """The full interval and the node that serves it.

        The shard is the segment number for an allreduce, and the block number for a reduce-scatter.

        >>> from innet.plans.plan import Plan, Placed
        >>> Plan("ps", ("h0",), (Placed(Interval(0, 0), "h0"),), ()).root_for(7).node
        'h0'
        """
        return self.roots[shard % len(self.roots)]

    @cached_property
    def expressions(self) -> Mapping[Interval, tuple[Interval, ...]]:
        """The operands of each interval that a rule makes, from left to right."""
        return {rule.interval: tuple(o.interval for o in rule.operands) for rule in self.rules}

    @cached_property
    def intervals(self) -> tuple[Interval, ...]:
        """Every interval that some rule makes, shorter ones first."""
        return tuple(sorted(self.expressions, key=lambda i: (i.length(self.size), i.first)))

    def expression(self, interval: Interval) -> tuple[Interval, ...]:
        """The operands of ``interval`` from left to right; empty for a single rank.

        Raises:
            PlanError: the plan makes no such interval.
        """
        if interval.is_single and interval.first < self.size:
            return ()
        try:
            return self.expressions[interval]
        except KeyError:
            known = ", ".join(str(i) for i in self.intervals) or "none: one rank needs no sum"
            raise PlanError(
                f"this {self.algorithm} plan of {self.size} ranks makes no interval {interval}; "
                f"it makes {known}"
            ) from None

    def nodes_for(self, interval: Interval) -> tuple[str, ...]:
        """The nodes that serve ``interval``; the rank's own node for a single rank."""
        if interval.is_single and interval.first < self.size:
            return (self.ranks[interval.first],)
        return self._placements.get(interval, ())

    def rules_for(self, node: str) -> tuple[Rule, ...]:
        """All rules to install at ``node``: its primary ones, then its fallback ones.

        A rank's node gets a rule for every interval of the plan, so that it can finish any
        operation alone; another node gets one for each direct or indirect operand of its sums.
        """
        primary = self.primary_rules(node)
        wanted = self.intervals if node in self._rank_of else self._below(primary)
        made = {rule.interval for rule in primary}
        return primary + tuple(self.fallback(node, i) for i in wanted if i not in made)

    def primary_rules(self, node: str) -> tuple[Rule, ...]:
        """The rules of the sums that ``node`` serves."""
        return self._rules_at.get(node, ())

    def fallback(self, node: str, interval: Interval) -> Rule:
        """The rule by which ``node`` evaluates ``interval`` itself when no other node does.

        Raises:
            PlanError: the plan makes no such interval.
        """
        operands = tuple(
            Placed(operand, self._choose_node(operand, node))
            for operand in self.expression(interval)
        )
        if not operands:
            raise PlanError(
                f"{interval} is the contribution of one rank, which no other node can make"
            )
        return Rule(node, interval, operands, primary=False)

    def sums_ahead(self, node: str) -> tuple[AheadSum, ...]:
        """The sums that ``node`` begins without a request of another node, far from the root first.

        Before each comes the first sum that this node makes for it, so that contributions are
        requested in the order of the list.

        Empty where sums wait in long chains, as round a ring: all of them together would fill the
        tables of switches.
        """
        if self.algorithm != "halving-doubling":
            return ()
        found = [
            ahead for rule in self.primary_rules(node) for ahead in self._asked_elsewhere(rule)
        ]
        first = self._first_sums(node)
        begun: list[AheadSum] = []
        for ahead in sorted(found, key=lambda ahead: (-ahead.nodes_to_root, ahead.shard)):
            if first[ahead.interval] != ahead.interval:
                begun.append(ahead._replace(interval=first[ahead.interval]))
            begun.append(ahead)
        return tuple(begun)

    def _first_sums(self, node: str) -> dict[Interval, Interval]:
        """The first sum that ``node`` makes for each of its sums, which can be the sum itself."""
        first: dict[Interval, Interval] = {}
        for rule in self.primary_rules(node):  # operands before their sums
            own = (o.interval for o in rule.operands if o.node == node)
            first[rule.interval] = next((first[o] for o in own if o in first), rule.interval)
        return first

    def _asked_elsewhere(self, rule: Rule) -> Iterator[AheadSum]:
        """The shards for which another node requests the sum of ``rule``."""
        pending = [
            (asker, 1)
            for asker in self._askers.get(Placed(rule.interval, rule.node), ())
            if asker.node != rule.node
        ]
        while pending:
            placed, nodes = pending.pop()
            if placed in self._shard_of:
                yield AheadSum(self._shard_of[placed], rule.interval, nodes)
            pending += [
                (asker, nodes + (asker.node != placed.node))
                for asker in self._askers.get(placed, ())
            ]

    def ahead_to(self, placed: Placed) -> tuple[str, ...]:
        """By shard, the switch to which ``placed`` goes before it is requested, or an empty string.

        Contributions go ahead to switches, and sums of values that do. Empty where none goes ahead.
        """
        return self._ahead_to.get(placed, ())

    def arriving_ahead(self, routes: Routes) -> frozenset[Placed]:
        """The values that arrive before they are requested: those that only neighbours add."""
        found: set[Placed] = set()
        for placed in self._ahead_to:  # operands before their sums
            adders = {asker.node for asker in self._askers[placed]}
            if (
                adders <= set(self._ahead_to[placed])
                and all(routes.next_hop(placed.node, adder) == adder for adder in adders)
                and found.issuperset(self._operands_of.get(placed, ()))
            ):
                found.add(placed)
        return frozenset(found)

    def position_of(self, node: str) -> int:
        """The rank that ``node`` holds.

        Raises:
            PlanError: it holds none.
        """
        if node not in self._rank_of:
            raise PlanError(f"{node} holds no rank of this {self.algorithm} plan")
        return self._rank_of[node]

    def describe(self) -> str:
        """The plan as text for a person: roots, then the rules of each node."""
        ranks, rules_made = counted(self.size, "rank"), counted(len(self.rules), "rule")
        lines = [f"{self.algorithm}: {ranks}, {rules_made}"]
        lines += [f"  {line}" for line in self.why.splitlines()]
        lines.append("roots: " + ", ".join(str(root) for root in self.roots))
        for node, rules in self._rules_at.items():
            lines.append(f"{node}:")
            lines += [f"  {rule}" for rule in rules]
        return "\n".join(lines)

    def validate(self) -> None:
        """Check that the plan is consistent; every planner ends with this.

        Raises:
            PlanError: a root or rule is wrong; names the first one, and the reason.
        """
        if not self.ranks:
            raise PlanError("a plan needs at least one rank; name the nodes of the group's ranks")
        if len(self._rank_of) != self.size:
            twice = next(n for i, n in enumerate(self.ranks) if n in self.ranks[:i])
            raise PlanError(f"{twice} holds two ranks; place each rank on a node of its own")
        for rule in self.rules:
            self._validate_rule(rule)
        if sum(len(nodes) for nodes in self._placements.values()) != len(self.rules):
            raise PlanError("two rules make the same interval at the same node; keep one of them")
        if not self.roots:
            raise PlanError("the plan has no root, so no rank could request a result; name one")
        for root in self.roots:
            self._validate_known(root.interval, "root " + str(root))
            if root.interval.length(self.size) != self.size:
                raise PlanError(f"root {root} does not cover all {self.size} ranks")
            self._validate_answered(root, "the root")

    def to_dict(self) -> dict[str, Any]:
        """The plan in JSON types; :meth:`from_dict` reads it back."""
        return {
            "algorithm": self.algorithm,
            "ranks": list(self.ranks),
            "roots": [_placed_to_list(root) for root in self.roots],
            "rules": [
                {
                    "node": rule.node,
                    "interval": str(rule.interval),
                    "operands": [_placed_to_list(operand) for operand in rule.operands],
                }
                for rule in self.rules
            ],
            "why": self.why,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Plan:
        """Read what :meth:`to_dict` wrote, and validate it.

        Raises:
            PlanError: a field is missing or of the wrong kind, or the plan is inconsistent.
        """
        try:
            plan = cls(
                algorithm=str(document["algorithm"]),
                ranks=tuple(str(node) for node in document["ranks"]),
                roots=tuple(_placed_from_list(root) for root in document["roots"]),
                rules=tuple(
                    Rule(
                        node=str(rule["node"]),
                        interval=Interval.parse(rule["interval"]),
                        operands=tuple(_placed_from_list(o) for o in rule["operands"]),
                    )
                    for rule in document["rules"]
                ),
                why=str(document.get("why", "")),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise PlanError(
                f"not a plan: {type(error).__name__}: {error}; "
                "pass the dictionary that Plan.to_dict() gave"
            ) from error
        plan.validate()
        return plan

    @cached_property
    def _askers(self) -> dict[Placed, list[Placed]]:
        """The sums of which each value is an operand."""
        askers: dict[Placed, list[Placed]] = {}
        for rule in self.rules:
            for operand in rule.operands:
                askers.setdefault(operand, []).append(Placed(rule.interval, rule.node))
        return askers

    @cached_property
    def _shard_of(self) -> dict[Placed, int]:
        """The shard of each root."""
        return {root: shard for shard, root in enumerate(self.roots)}

    @cached_property
    def _rank_of(self) -> dict[str, int]:
        return {node: rank for rank, node in enumerate(self.ranks)}

    @cached_property
    def _ahead_to(self) -> dict[Placed, tuple[str, ...]]:
        """See :meth:`ahead_to`; operands come before their sums."""
        if all(rule.node in self._rank_of for rule in self.rules):
            return {}
        found: dict[Placed, list[str]] = {}
        for shard, root in enumerate(self.roots):
            needed = [root]
            for made in needed:
                needed += self._operands_of.get(made, ())
            for made in reversed(needed):
                for operand in self._operands_of.get(made, ()):
                    if self._goes_ahead(operand, made, shard, found):
                        found.setdefault(operand, [""] * len(self.roots))[shard] = made.node
        ordered = sorted(found, key=lambda placed: placed.interval.length(self.size))
        return {placed: tuple(found[placed]) for placed in ordered}

    def _goes_ahead(
        self, operand: Placed, made: Placed, shard: int, found: Mapping[Placed, Sequence[str]]
    ) -> bool:
        """Whether ``operand`` goes to the node of ``made``, when its own operands are ``found``."""
        if made.node in self._rank_of or made.node == operand.node:
            return False
        parts = self._operands_of.get(operand, ())
        return all(part in found and found[part][shard] == operand.node for part in parts)

    @cached_property
    def _known_below(self) -> dict[str, dict[Interval, str]]:
        """Cached results of :meth:`_operands_below`."""
        return {}

    @cached_property
    def _operands_of(self) -> dict[Placed, tuple[Placed, ...]]:
        return {Placed(rule.interval, rule.node): rule.operands for rule in self.rules}

    @cached_property
    def _rules_at(self) -> dict[str, tuple[Rule, ...]]:
        found: dict[str, list[Rule]] = {}
        for rule in self.rules:
            ahead_to = self.ahead_to(Placed(rule.interval, rule.node))
            placed = replace(rule, ahead_to=ahead_to) if ahead_to else rule
            found.setdefault(rule.node, []).append(placed)
        return {node: tuple(rules) for node, rules in found.items()}

    @cached_property
    def _placements(self) -> dict[Interval, tuple[str, ...]]:
        found: dict[Interval, dict[str, None]] = {}
        for rule in self.rules:
            found.setdefault(rule.interval, {})[rule.node] = None
        return {interval: tuple(nodes) for interval, nodes in found.items()}

    def _below(self, rules: tuple[Rule, ...]) -> tuple[Interval, ...]:
        found: set[Interval] = set()
        pending = [operand.interval for rule in rules for operand in rule.operands]
        while pending:
            interval = pending.pop()
            if not interval.is_single and interval not in found:
                found.add(interval)
                pending += self.expressions[interval]
        return tuple(interval for interval in self.intervals if interval in found)

    def _choose_node(self, interval: Interval, asker: str) -> str:
        """Spread ranks' fallback requests over an interval's placements, the same way every time.

        A switch stays on its own tree: of hosts with several links, it may not reach the others.
        """
        nodes = self.nodes_for(interval)
        if asker in nodes:
            return asker
        if asker not in self._rank_of and interval in (below := self._operands_below(asker)):
            return below[interval]
        return nodes[self._rank_of.get(asker, 0) % len(nodes)]

    def _operands_below(self, node: str) -> Mapping[Interval, str]:
        """The nodes of all values that the sums of ``node`` are made of, directly or not."""
        if node not in self._known_below:
            pending = [operand for rule in self.primary_rules(node) for operand in rule.operands]
            found = self._known_below.setdefault(node, {})
            for placed in pending:
                if placed.interval not in found:
                    found[placed.interval] = placed.node
                    pending += self._operands_of.get(placed, ())
        return self._known_below[node]

    def _validate_rule(self, rule: Rule) -> None:
        place = f"the rule for {rule.interval} at {rule.node}"
        for interval in (rule.interval, *(operand.interval for operand in rule.operands)):
            self._validate_known(interval, place)
        if len(rule.operands) < 2:
            raise PlanError(f"{place} has {len(rule.operands)} operands; a sum needs two or more")
        parts = tuple(operand.interval for operand in rule.operands)
        if not is_partition(parts, rule.interval, self.size):
            raise PlanError(
                f"{place} adds {_say_sum(parts)}, which is not {rule.interval} cut into "
                "consecutive parts; list the operands in cyclic order, without gap or overlap"
            )
        if parts != self.expressions[rule.interval]:
            raise PlanError(
                f"{place} adds {_say_sum(parts)}, elsewhere it is "
                f"{_say_sum(self.expressions[rule.interval])}; a group has one expression for each "
                "interval, or its bits would depend on who computes it"
            )
        for operand in rule.operands:
            self._validate_answered(operand, place)

    def _validate_known(self, interval: Interval, place: str) -> None:
        if not (0 <= interval.first < self.size and 0 <= interval.last < self.size):
            raise PlanError(f"{place}: {interval} names ranks outside 0..{self.size - 1}")

    def _validate_answered(self, placed: Placed, place: str) -> None:
        if placed.node not in self.nodes_for(placed.interval):
            raise PlanError(
                f"{place} requests {placed.interval} of {placed.node}, which has no rule for it; "
                f"known: {', '.join(self.nodes_for(placed.interval)) or 'none'}"
            )


def _say_sum(parts: tuple[Interval, ...]) -> str:
    return " + ".join(str(part) for part in parts)


def _placed_to_list(placed: Placed) -> list[str]:
    return [str(placed.interval), placed.node]


def _placed_from_list(item: Any) -> Placed:
    interval, node = item
    return Placed(Interval.parse(interval), str(node))
