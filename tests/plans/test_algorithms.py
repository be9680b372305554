"""What holds for every algorithm on every network, seen from the installed rules alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import PlanError
from innet.plans import ALGORITHMS, Interval, Placed, Plan, Rule, make_plan
from innet.topology import Topology, load_topology
from innet.topology.routes import Routes

Expression = int | tuple["Expression", ...]


@st.composite
def plans(draw: st.DrawFn) -> tuple[Topology, Plan]:
    """Any algorithm on any network, with some of the hosts as ranks in any order."""
    topology = draw(st.from_type(Topology))
    orders = st.permutations(topology.hosts) | st.just(list(topology.hosts))
    ranks = draw(orders)
    ranks = ranks[: draw(st.integers(1, len(ranks)))]
    algorithm = draw(st.sampled_from(sorted(ALGORITHMS)))
    return topology, make_plan(algorithm, topology, ranks)


def installed(plan: Plan, topology: Topology) -> dict[str, dict[str, Rule]]:
    """Rules by node and interval, as the nodes would hold them."""
    tables: dict[str, dict[str, Rule]] = {}
    for node in topology.nodes:
        rules = plan.rules_for(node)
        tables[node] = {str(rule.interval): rule for rule in rules}
        assert len(tables[node]) == len(rules), "one rule for an interval at a node"
        assert all(rule.node == node for rule in rules)
    return tables


def ask(
    tables: dict[str, dict[str, Rule]], plan: Plan, interval: Interval, node: str, *, alone: bool
) -> Expression:
    """What ``node`` answers for ``interval``; ``alone``: it has nobody else to make sums."""
    if interval.is_single:
        assert alone or node == plan.ranks[interval.first], "contributions come from their rank"
        return interval.first
    rule = tables[node][str(interval)]
    assert alone or rule.primary, "nobody is asked for what it only makes for itself"
    return tuple(
        ask(tables, plan, operand.interval, node if alone else operand.node, alone=alone)
        for operand in rule.operands
    )


def flatten(expression: Expression) -> list[int]:
    if isinstance(expression, int):
        return [expression]
    return [rank for part in expression for rank in flatten(part)]


@given(plans())
def test_every_shard_adds_every_rank_once_in_cyclic_order(case: tuple[Topology, Plan]) -> None:
    topology, plan = case
    tables = installed(plan, topology)
    for root in plan.roots:
        added = flatten(ask(tables, plan, root.interval, root.node, alone=False))
        assert added == [(added[0] + i) % plan.size for i in range(plan.size)]


@given(plans())
def test_a_host_on_its_own_evaluates_the_same_expression(case: tuple[Topology, Plan]) -> None:
    topology, plan = case
    tables = installed(plan, topology)
    for root in plan.roots:
        together = ask(tables, plan, root.interval, root.node, alone=False)
        for host in (plan.ranks[0], plan.ranks[-1], root.node):
            assert ask(tables, plan, root.interval, host, alone=True) == together


@given(plans())
def test_fallback_rules_request_from_nodes_that_serve_the_value(
    case: tuple[Topology, Plan],
) -> None:
    topology, plan = case
    tables = installed(plan, topology)
    for node in {plan.ranks[-1], plan.roots[-1].node}:
        for rule in tables[node].values():
            for operand in rule.operands:
                answer = ask(tables, plan, operand.interval, operand.node, alone=False)
                assert flatten(answer) == list(operand.interval.members(plan.size))


@given(plans())
def test_a_plan_survives_the_control_channel(case: tuple[Topology, Plan]) -> None:
    _, plan = case
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


@given(plans())
def test_plans_are_reproducible(case: tuple[Topology, Plan]) -> None:
    topology, plan = case
    again = make_plan(plan.algorithm, topology, plan.ranks)
    assert (again.roots, again.rules) == (plan.roots, plan.rules)


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_one_rank_needs_no_rule(algorithm: str, star: Callable[..., Topology]) -> None:
    plan = make_plan(algorithm, star(3), ["h1"])
    assert plan.rules == ()
    assert [(str(root.interval), root.node) for root in plan.roots] == [("0", "h1")]


@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling"])
def test_reduce_scatter_block_ends_at_its_rank(
    algorithm: str, star: Callable[..., Topology]
) -> None:
    plan = make_plan(algorithm, star(8))
    assert [plan.root_for(block).node for block in range(8)] == list(plan.ranks)


def test_the_ring_adds_one_rank_after_the_other(star: Callable[..., Topology]) -> None:
    plan = make_plan("ring", star(4))
    assert plan.expression(Interval.parse("1-0")) == (Interval.parse("1-3"), Interval.single(0))
    assert plan.expression(Interval.parse("1-3")) == (Interval.parse("1-2"), Interval.single(3))
    assert plan.nodes_for(Interval.parse("1-3")) == ("h3",)


def test_halving_doubling_requests_from_ranks_with_equal_low_bits(
    star: Callable[..., Topology],
) -> None:
    plan = make_plan("halving-doubling", star(8))
    (full,) = (r for r in plan.rules_for("h5") if r.primary and str(r.interval) == "0-7")
    assert [str(operand) for operand in full.operands] == ["0-3 at h1", "4-7 at h5"]


def test_halving_doubling_starts_the_sum_farthest_from_its_root_first(
    star: Callable[..., Topology],
) -> None:
    ahead = make_plan("halving-doubling", star(8)).sums_ahead("h0")
    # The root of shard 0 is this node; odd shards need nothing that it adds.
    assert [(sum_.shard, str(sum_.interval)) for sum_ in ahead] == [
        (6, "0-1"),  # for h2, which adds to it for h6
        (2, "0-1"),
        (4, "0-1"),  # so that contributions for 0-3 are requested before any other
        (4, "0-3"),
    ]


@pytest.mark.parametrize("algorithm", ["inc", "ps", "ring"])
def test_sums_wait_for_requests_where_many_depend_on_each_other(
    algorithm: str, star: Callable[..., Topology]
) -> None:
    plan = make_plan(algorithm, star(4))
    assert not any(plan.sums_ahead(node) for node in plan.ranks)


@pytest.mark.parametrize("algorithm", ["halving-doubling", "inc", "ps", "ring"])
def test_contributions_are_sent_ahead_only_where_a_switch_adds_them(
    algorithm: str, star: Callable[..., Topology]
) -> None:
    plan = make_plan(algorithm, star(4))
    own = [Placed(Interval.single(rank), node) for rank, node in enumerate(plan.ranks)]
    assert [plan.ahead_to(placed) for placed in own] == [("s0",) if algorithm == "inc" else ()] * 4


def test_sums_are_sent_ahead_to_the_switch_that_adds_them_in_each_shard() -> None:
    plan = make_plan("inc", load_topology("fat-tree:4"))
    assert plan.ahead_to(Placed(Interval(0, 0), "h0")) == ("edge0",) * 4
    assert [rule.ahead_to for rule in plan.primary_rules("edge0")] == [
        ("agg0", "agg0", "agg1", "agg1")
    ]
    assert [rule.ahead_to for rule in plan.primary_rules("agg1")] == [("", "", "core2", "core3")]
    assert [rule.ahead_to for rule in plan.primary_rules("core0")] == [()]
    assert {rule.ahead_to for rule in plan.rules_for("h0")} == {()}


def test_sums_are_sent_ahead_only_to_neighbours() -> None:
    topology = load_topology("leaf-spine:2x1x2")
    plan = make_plan("inc", topology)
    of_leaf, root = Placed(Interval(0, 1), "leaf0"), plan.root_for(0)
    assert of_leaf in plan.arriving_ahead(Routes(topology))
    assert root not in plan.arriving_ahead(Routes(topology))
    moved = make_plan("inc", topology, place={"0-3": "leaf1"})
    arriving = moved.arriving_ahead(Routes(topology))
    assert of_leaf not in arriving
    assert Placed(Interval(0, 0), "h0") in arriving


@pytest.mark.parametrize("ranks", [3, 6, 33])
def test_halving_doubling_pairs_the_ranks_beyond_a_power_of_two(
    ranks: int, star: Callable[..., Topology]
) -> None:
    plan = make_plan("halving-doubling", star(ranks))
    power = 1 << (ranks.bit_length() - 1)
    pairs = [rule for rule in plan.rules if rule.interval.length(ranks) == 2][: ranks - power]
    assert [rule.interval.first for rule in pairs] == list(range(0, 2 * (ranks - power), 2))
    assert len(plan.roots) == power


def test_the_parameter_server_can_be_chosen(star: Callable[..., Topology]) -> None:
    plan = make_plan("ps", star(4), server="h2")
    assert {rule.node for rule in plan.rules} == {"h2"}
    assert [str(i) for i in plan.expression(Interval(0, 3))] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("rnig",), {}, "unknown algorithm 'rnig'; did you mean 'ring'"),
        (("ring",), {"server": "h0"}, "ring has no option 'server'"),
        (("ps",), {"sever": "h0"}, "did you mean 'server'"),
        (("ps",), {"server": "h9"}, "no node 'h9'"),
        (("ring", ["h0", "h9"]), {}, "rank 1 is placed on 'h9'"),
        (("ring", ["h0", "h1", "h0"]), {}, "ranks 0 and 2 are both placed on h0"),
        (("ring", []), {}, "at least one rank"),
        (("inc",), {"roots": ["s9"]}, "no node 's9'"),
        (("inc",), {"roots": []}, "list of roots is empty"),
        (("inc",), {"place": {"0-1": "s0"}}, "0-1 cannot be placed.*it makes 0-3"),
        (("inc",), {"place": {"0-3": "s9"}}, "no node 's9'"),
    ],
)
def test_invalid_requests_are_refused_with_the_next_step(
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    message: str,
    star: Callable[..., Topology],
) -> None:
    algorithm, *ranks = arguments
    with pytest.raises(PlanError, match=message):
        make_plan(algorithm, star(4), *ranks, **options)
