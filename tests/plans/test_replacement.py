"""Sums move away from switches that are gone; the expression, and so every bit, stays."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from innet.plans import Interval, Placed, Plan, make_plan, place_without
from innet.topology import Topology
from innet.topology.routes import Ends, Routes, ends_of
from tests.plans.conftest import build_rails


def same_expression(plan: Plan, other: Plan) -> bool:
    return plan.intervals == other.intervals and all(
        plan.expression(interval) == other.expression(interval) for interval in plan.intervals
    )


def test_the_other_spine_adds_the_shards_of_a_lost_one(leaf_spine: Callable[..., Topology]):
    topology = leaf_spine(4, 4, 2)
    plan = place_without(make_plan("inc", topology), topology, ["spine0"])
    assert [str(root) for root in plan.roots] == ["0-15 at spine1"]
    assert not plan.rules_for("spine0")


def test_a_sum_moves_away_from_a_link_that_is_cut(leaf_spine: Callable[..., Topology]):
    topology = leaf_spine(4, 4, 2)
    plan = place_without(make_plan("inc", topology), topology, [], [("leaf2", "spine0")])
    assert [str(root) for root in plan.roots] == ["0-15 at spine1"]
    assert plan.nodes_for(Interval(8, 11)) == ("leaf2",)


def test_an_unreachable_host_moves_no_sum(leaf_spine: Callable[..., Topology]):
    topology = leaf_spine(2, 2, 2)
    plan = make_plan("inc", topology)
    assert place_without(plan, topology, [], [("h0", "leaf0")]).rules == plan.rules


def test_a_pod_keeps_its_sum_within_the_pod(fat_tree: Callable[..., Topology]):
    topology = fat_tree(4)
    plan = place_without(make_plan("inc", topology), topology, ["a0-0"])
    assert plan.nodes_for(Interval(0, 3)) == ("a0-1",)
    both = place_without(make_plan("inc", topology), topology, ["c0", "c1", "c2"])
    assert [root.node for root in both.roots] == ["c3"]


def test_sums_of_unreachable_ranks_wait_for_the_switch(leaf_spine: Callable[..., Topology]):
    topology = leaf_spine(2, 2, 2)
    plan = place_without(make_plan("inc", topology), topology, ["leaf1"])
    assert plan.nodes_for(Interval(2, 3)) == ("leaf1",)
    assert plan.nodes_for(Interval(0, 1)) == ("leaf0",)


def test_hosts_add_when_no_switch_can(leaf_spine: Callable[..., Topology]):
    topology = leaf_spine(1, 4, 1)
    alone = make_plan("inc", topology, place={"0-3": "spine0"})
    assert place_without(alone, topology, ["spine0"]).nodes_for(Interval(0, 3)) == ("leaf0",)
    forwarders = leaf_spine(2, 2, 2, slots=0)
    moved = make_plan("inc", forwarders, place={"0-3": "spine0"})
    plan = place_without(moved, forwarders, ["spine0"])
    assert [root.node for root in plan.roots] == ["h0", "h1", "h2", "h3"]


@given(
    rails=st.integers(2, 3), leaves=st.integers(2, 3), per_leaf=st.integers(1, 3), data=st.data()
)
def test_one_intact_rail_is_enough(rails, leaves, per_leaf, data):
    """Whatever breaks in the others, each root is reached, and reaches all operands."""
    topology = build_rails(rails, leaves, per_leaf)
    others = [s for s in topology.switches if not s.startswith(("spine0", "r0-"))]
    lost = data.draw(st.sets(st.sampled_from(others)))
    of_others = [ends_of(*x.nodes) for x in topology.links if not set(others).isdisjoint(x.nodes)]
    cut = data.draw(st.sets(st.sampled_from(of_others), max_size=4))
    plan = make_plan("inc", topology)
    placed = place_without(plan, topology, lost, cut)
    assert same_expression(plan, placed)
    assert len(placed.roots) == rails - len(broken_rails(rails, lost, cut))
    routes = Routes(topology, lost, cut)
    for root in placed.roots:
        assert all(routes.reaches(rank, root.node) for rank in plan.ranks)
        needed = [root]
        for value in needed:
            rules = [rule for rule in placed.rules if Placed(rule.interval, rule.node) == value]
            assert len(rules) == (not value.interval.is_single)
            for operand in (operand for rule in rules for operand in rule.operands):
                assert routes.reaches(value.node, operand.node)
                needed.append(operand)
    assert place_without(plan, topology, [], []) is plan


def broken_rails(rails: int, lost: set[str], cut: set[Ends]) -> set[int]:
    """The rails that cannot add everything any more."""
    parts = {*lost, *(end for ends in cut for end in ends if not end.startswith("h"))}
    names = {rail: (f"spine{rail}", f"r{rail}-") for rail in range(rails)}
    return {rail for rail, own in names.items() if any(part.startswith(own) for part in parts)}


def test_a_node_keeps_the_operands_of_a_sum_that_it_made_before(fat_tree: Callable[..., Topology]):
    topology = fat_tree(4)
    plan = make_plan("inc", topology)
    placed = place_without(plan, topology, ["c3"])
    for core in ("c0", "c1", "c2"):
        assert placed.primary_rules(core) == plan.primary_rules(core)


def test_hosts_add_when_every_rail_misses_a_host(rails: Callable[..., Topology]):
    topology = rails(2, 1, 3)
    plan = make_plan("inc", topology)
    placed = place_without(plan, topology, [], [("h0", "r0-0"), ("h1", "r1-0")])
    assert [root.node for root in placed.roots] == ["h2"]


def test_a_ring_uses_the_other_rail_when_a_link_is_cut(rails: Callable[..., Topology]):
    topology = rails(2, 1, 4)
    plan = make_plan("ring", topology)
    assert place_without(plan, topology, [], [("h0", "r0-0")]).rules == plan.rules


@given(st.from_type(Topology), st.data())
def test_any_loss_keeps_the_expression_and_avoids_lost_nodes(
    topology: Topology, data: st.DataObject
):
    algorithm = data.draw(st.sampled_from(["inc", "ring", "ps", "halving-doubling"]))
    plan = make_plan(algorithm, topology)
    switches = st.sampled_from(topology.switches) if topology.switches else st.nothing()
    lost = data.draw(st.sets(switches, max_size=3))
    placed = place_without(plan, topology, lost)
    assert same_expression(plan, placed)
    for shard in range(2 * len(plan.ranks)):
        assert placed.root_for(shard).interval == plan.root_for(shard).interval
    routes = Routes(topology, without=lost)
    for rule in placed.rules:
        members = [plan.ranks[rank] for rank in rule.interval.members(plan.size)]
        together = all(routes.reaches(members[0], member) for member in members)
        assert rule.node not in lost or not together, str(rule)
