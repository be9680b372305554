"""A tree of the topology, and the sums that its nodes can make on the way to the root."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from innet.plans.expression import Interval
from innet.plans.plan import Placed, Rule
from innet.topology import Topology
from innet.topology.routes import Routes


@dataclass(frozen=True)
class AggregationTree:
    """The union of the routes from the hosts of ``ranks`` to ``root``.

    Attributes:
        root: the node at the top.
        children: the nodes below each node, those with the earliest hosts first.
    """

    root: str
    children: dict[str, tuple[str, ...]]

    @classmethod
    def grow(cls, routes: Routes, root: str, hosts: Sequence[str]) -> AggregationTree:
        """The tree that reaches ``hosts`` from ``root``.

        Raises:
            PlanError: a host cannot be reached.
        """
        children: dict[str, dict[str, None]] = {root: {}}
        for host in hosts:
            path = [host]
            # Routes towards the root never split: from a node that is known, the rest is, too.
            while path[-1] not in children:
                children[path[-1]] = {}
                path.append(routes.next_hop(path[-1], root))
            for child, parent in pairwise(path):
                children[parent][child] = None
        return cls(root, {node: tuple(below) for node, below in children.items()})

    def preorder(self) -> tuple[str, ...]:
        """Every node, parents before children, one subtree after the other."""
        found: list[str] = []
        pending = [self.root]
        while pending:
            node = pending.pop()
            found.append(node)
            pending += reversed(self.children[node])
        return tuple(found)

    def postorder(self) -> tuple[str, ...]:
        """Every node, children before parents, one subtree after the other."""
        found: list[str] = []
        pending = [self.root]
        while pending:
            node = pending.pop()
            found.append(node)
            pending += self.children[node]
        return tuple(reversed(found))


@dataclass
class TreeReduction:
    """The rules that make the full sum along a tree.

    Attributes:
        rules: one per sum, lower nodes first.
        top: the full interval and the node that makes it (the rank's node for a single rank).
        split: nodes that could not join everything below them into one sum, with the parts that
            they leave to their parent.
    """

    rules: list[Rule] = field(default_factory=list)
    top: Placed | None = None
    split: dict[str, tuple[Interval, ...]] = field(default_factory=dict)


def reduce_along(
    tree: AggregationTree, ranks: Sequence[str], able: frozenset[str]
) -> TreeReduction:
    """Let every able node add what reaches it, as far as the ranks below it are consecutive.

    Args:
        tree: reaches the node of every rank.
        ranks: the node of each rank.
        able: nodes that may hold rules; the others pass the operands on to their parents. The root
            must be one of them.
    """
    rank_of = {node: rank for rank, node in enumerate(ranks)}
    size = len(ranks)
    reduction = TreeReduction()
    passed: dict[str, list[Placed]] = {}
    for node in tree.postorder():
        parts = [part for child in tree.children[node] for part in passed.pop(child)]
        if node in rank_of:
            parts.append(Placed(Interval.single(rank_of[node]), node))
        if node in able:
            parts = [_join(reduction, node, run, size) for run in _runs(parts, size)]
            if len(parts) > 1:
                reduction.split[node] = tuple(part.interval for part in parts)
        passed[node] = parts
    (reduction.top,) = passed[tree.root]
    return reduction


def _runs(parts: list[Placed], size: int) -> list[list[Placed]]:
    """The parts in cyclic order, cut where they are not consecutive."""
    ordered = sorted(parts)
    # A run may pass over rank 0; beginning at a gap keeps it in one piece.
    for index, part in enumerate(ordered):
        if not _follows(ordered[index - 1], part, size):
            ordered = ordered[index:] + ordered[:index]
            break
    runs: list[list[Placed]] = []
    for part in ordered:
        if runs and _follows(runs[-1][-1], part, size):
            runs[-1].append(part)
        else:
            runs.append([part])
    return runs


def _follows(before: Placed, after: Placed, size: int) -> bool:
    return (before.interval.last + 1) % size == after.interval.first


def _join(reduction: TreeReduction, node: str, run: list[Placed], size: int) -> Placed:
    if len(run) == 1:
        return run[0]
    joined = Placed(Interval(run[0].interval.first, run[-1].interval.last), node)
    reduction.rules.append(Rule(node, joined.interval, tuple(run)))
    return joined


def rank_order(topology: Topology, hosts: Collection[str] | None = None) -> tuple[str, ...]:
    """Hosts in the order of a walk over the best aggregation tree; all hosts by default.

    Numbering ranks in this order makes the ranks below every switch consecutive, so each switch
    makes one sum. Hosts keep the topology's order as far as the tree allows it, in whatever order
    they are given. Names of other nodes are last; the planner refuses them.

    Where no switch reaches all hosts, they are in the topology's order.
    """
    named = topology.hosts if hosts is None else tuple(hosts)
    wanted = frozenset(named)
    known = tuple(host for host in topology.hosts if host in wanted)
    routes = Routes(topology)
    # Hosts behind one gate are equally far from everywhere else.
    apart = {routes.gate(host) or host: host for host in known}.values()
    roots = [s for s in topology.switches if all(routes.reaches(host, s) for host in apart)]
    walk = _walk(known, apart, routes, roots) if roots else known
    place = {host: index for index, host in enumerate(walk)}
    return tuple(sorted(named, key=lambda host: place.get(host, len(place))))


def _walk(
    hosts: tuple[str, ...], apart: Collection[str], routes: Routes, switches: Sequence[str]
) -> tuple[str, ...]:
    """The hosts in their order below the switch from which the farthest of them is nearest."""

    def depth(root: str) -> int:
        return max(_links_to(routes, root, apart), default=0)

    tree = AggregationTree.grow(routes, min(switches, key=depth), hosts)
    wanted = frozenset(hosts)
    return tuple(node for node in tree.preorder() if node in wanted)


def _links_to(routes: Routes, root: str, nodes: Collection[str]) -> Iterable[int]:
    """How many links are between each of ``nodes`` and ``root``."""
    links = {root: 0}
    for node in nodes:
        path = [node]
        while path[-1] not in links:
            path.append(routes.next_hop(path[-1], root))
        for nearer, further in pairwise(reversed(path)):
            links[further] = links[nearer] + 1
        yield links[node]
