"""Sums move away from switches that are gone; the expression, and so every bit, stays."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from innet.plans import Interval, Plan, make_plan, place_without
from innet.topology import Topology
from innet.topology.routes import Routes


def same_expression(plan: Plan, other: Plan) -> bool:
    return plan.intervals == other.intervals and all(
        plan.expression(interval) == other.expression(interval) for interval in plan.intervals
    )


def test_the_other_spine_takes_the_shards_of_a_lost_one(leaf_spine: Callable[..., Topology]):
    topology = leaf_spine(4, 4, 2)
    plan = place_without(make_plan("inc", topology), topology, ["spine0"])
    assert [str(root) for root in plan.roots] == ["0-15 at spine1"]
    assert not plan.rules_for("spine0")


def test_a_sum_moves_away_from_a_link_that_is_cut(leaf_spine: Callable[..., Topology]):
    topology = leaf_spine(4, 4, 2)
    plan = place_without(make_plan("inc", topology), topology, [], [("leaf2", "spine0")])
    assert [str(root) for root in plan.roots] == ["0-15 at spine1"]
    assert plan.nodes_for(Interval(8, 11)) == ("leaf2",)


def test_a_host_that_is_cut_off_moves_no_sum(leaf_spine: Callable[..., Topology]):
    topology = leaf_spine(2, 2, 2)
    plan = make_plan("inc", topology)
    assert place_without(plan, topology, [], [("h0", "leaf0")]).rules == plan.rules


def test_a_pod_keeps_its_sum_within_the_pod(fat_tree: Callable[..., Topology]):
    topology = fat_tree(4)
    plan = place_without(make_plan("inc", topology), topology, ["a0-0"])
    assert plan.nodes_for(Interval(0, 3)) == ("a0-1",)
    both = place_without(make_plan("inc", topology), topology, ["c0", "c1", "c2"])
    assert [root.node for root in both.roots] == ["c3"]


def test_sums_of_ranks_that_are_cut_off_wait_for_the_switch(leaf_spine: Callable[..., Topology]):
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


@given(st.from_type(Topology), st.data())
def test_any_loss_keeps_the_expression_and_avoids_the_lost(topology: Topology, data: st.DataObject):
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
