"""In-network aggregation: which switches add what."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import PlanError
from innet.plans import Interval, Plan, bytes_per_link, make_plan, rank_order
from innet.topology import Switch, Topology

MIB = 1 << 20


def placements(plan: Plan) -> dict[str, list[str]]:
    return {str(i): sorted(plan.nodes_for(i)) for i in plan.intervals}


def test_leaves_add_hosts_and_spines_add_leaves(leaf_spine: Callable[..., Topology]) -> None:
    plan = make_plan("inc", leaf_spine(2, 4, 1))
    assert placements(plan) == {"0-3": ["leaf0"], "4-7": ["leaf1"], "0-7": ["spine0"]}


def test_equal_spines_share_the_shards(leaf_spine: Callable[..., Topology]) -> None:
    plan = make_plan("inc", leaf_spine(4, 4, 2))
    assert [str(root) for root in plan.roots] == ["0-15 at spine0", "0-15 at spine1"]
    assert [plan.root_for(segment).node for segment in range(3)] == ["spine0", "spine1", "spine0"]


def test_a_slower_spine_is_not_used(leaf_spine: Callable[..., Topology]) -> None:
    topology = leaf_spine(2, 2, 3)
    links = [
        link.model_copy(update={"rate_bps": 1e8}) if "spine0" in link.nodes else link
        for link in topology.links
    ]
    plan = make_plan("inc", Topology(name="uneven", nodes=topology.nodes, links=tuple(links)))
    assert [root.node for root in plan.roots] == ["spine1", "spine2"]


def test_a_fat_tree_adds_on_three_levels(fat_tree: Callable[..., Topology]) -> None:
    plan = make_plan("inc", fat_tree(4))
    assert {root.node for root in plan.roots} == {"c0", "c1", "c2", "c3"}
    assert plan.expression(Interval(0, 15)) == tuple(Interval(i, i + 3) for i in (0, 4, 8, 12))
    assert plan.expression(Interval(0, 3)) == (Interval(0, 1), Interval(2, 3))
    assert placements(plan)["0-3"] == ["a0-0", "a0-1"]


def test_a_group_below_one_leaf_is_summed_there(leaf_spine: Callable[..., Topology]) -> None:
    plan = make_plan("inc", leaf_spine(2, 4, 2), ["h4", "h5", "h6"])
    assert placements(plan) == {"0-2": ["leaf1"]}


@given(st.from_type(Topology))
def test_switches_without_slots_add_nothing(topology: Topology) -> None:
    plan = make_plan("inc", topology)
    unable = {n.name for n in topology.nodes.values() if isinstance(n, Switch) and n.slots == 0}
    assert not unable & {rule.node for rule in plan.rules}
    if len(unable) < len(topology.switches):
        assert {rule.node for rule in plan.rules} <= set(topology.switches)


def test_a_parent_takes_the_operands_of_a_switch_without_slots(
    leaf_spine: Callable[..., Topology],
) -> None:
    topology = leaf_spine(2, 2, 1)
    nodes = dict(topology.nodes) | {
        "leaf0": topology.nodes["leaf0"].model_copy(update={"slots": 0})
    }
    plan = make_plan("inc", topology.model_copy(update={"nodes": nodes}))
    assert [str(i) for i in plan.expression(Interval(0, 3))] == ["0", "1", "2-3"]


def test_hosts_add_when_no_switch_can(star: Callable[..., Topology]) -> None:
    plan = make_plan("inc", star(4, slots=0))
    assert [root.node for root in plan.roots] == ["h0", "h1", "h2", "h3"]
    assert "No switch has slots" in plan.why


@given(st.from_type(Topology))
def test_ranks_in_tree_order_load_each_link_once(topology: Topology) -> None:
    able = topology.with_overrides(slots=8)
    plan = make_plan("inc", able, rank_order(able))
    assert sorted(plan.ranks) == sorted(topology.hosts)
    assert "not consecutive" not in plan.why
    assert max(bytes_per_link(plan, able, MIB).values(), default=0) <= MIB


def test_ranks_in_another_order_work_and_the_plan_states_the_cost(
    leaf_spine: Callable[..., Topology],
) -> None:
    topology = leaf_spine(2, 2, 1)
    plan = make_plan("inc", topology, ["h0", "h2", "h1", "h3"])
    assert [str(i) for i in plan.expression(Interval(0, 3))] == ["0", "1", "2", "3"]
    assert "leaf0 leaves 0, 2 to its parent" in plan.why
    assert "rank_order" in plan.why


def test_an_interval_of_a_subtree_can_wrap_around_rank_zero(
    leaf_spine: Callable[..., Topology],
) -> None:
    plan = make_plan("inc", leaf_spine(2, 2, 1), ["h1", "h2", "h3", "h0"])
    assert placements(plan) == {"1-2": ["leaf1"], "3-0": ["leaf0"], "1-0": ["spine0"]}


def test_rank_order_keeps_a_good_order(
    star: Callable[..., Topology], leaf_spine: Callable[..., Topology]
) -> None:
    for topology in (star(12), leaf_spine(4, 4, 2)):
        assert rank_order(topology) == topology.hosts


def test_roots_can_be_forced(leaf_spine: Callable[..., Topology]) -> None:
    topology = leaf_spine(2, 2, 2)
    assert [r.node for r in make_plan("inc", topology, roots=["spine1"]).roots] == ["spine1"]
    deeper = make_plan("inc", topology, roots=["leaf0"])
    assert [str(i) for i in deeper.expression(Interval(0, 3))] == ["0", "1", "2-3"]
    below_one_leaf = make_plan("inc", topology, ["h0", "h1"], roots=["spine1"])
    assert placements(below_one_leaf) == {"0-1": ["spine1"]}


def test_roots_of_different_expressions_are_refused(leaf_spine: Callable[..., Topology]) -> None:
    with pytest.raises(PlanError, match="spine0 and leaf0 cannot both be roots"):
        make_plan("inc", leaf_spine(2, 2, 2), roots=["spine0", "leaf0"])


def test_moving_a_sum_keeps_the_expression(leaf_spine: Callable[..., Topology]) -> None:
    topology = leaf_spine(4, 4, 2)
    plan = make_plan("inc", topology)
    moved = make_plan("inc", topology, place={"0-3": "spine1", "0-15": "h7", "8-11": "leaf0"})
    assert {i: plan.expression(i) for i in plan.intervals} == {
        i: moved.expression(i) for i in moved.intervals
    }
    assert moved.nodes_for(Interval(0, 3)) == ("spine1",)
    assert [str(root) for root in moved.roots] == ["0-15 at h7"]
