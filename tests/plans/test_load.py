"""Plans and hosts beside what others use of a network."""

from __future__ import annotations

import pytest

from innet.errors import PlanError
from innet.plans import Load, Plan, choose_hosts, explain, make_plan
from innet.plans.algorithms.inc import TreeSearch, able_switches
from innet.plans.cost import CostModel
from innet.topology import load_topology

TOPOLOGY = load_topology("leaf-spine:4x2x4").with_overrides(rate_bps=1e9, delay_s=1e-6)
BUSY_UPLINK = Load(link_bps={"leaf0": {"spine0": 9e8}})


def roots(plan: Plan) -> list[str]:
    return sorted(root.node for root in plan.roots)


def test_both_spines_add_until_other_traffic_fills_an_uplink_of_one():
    assert roots(make_plan("inc", TOPOLOGY)) == ["spine0", "spine1"]
    little = Load(link_bps={"leaf0": {"spine0": 2e8}})
    assert roots(make_plan("inc", TOPOLOGY, load=little)) == ["spine0", "spine1"]
    assert roots(make_plan("inc", TOPOLOGY, load=BUSY_UPLINK)) == ["spine1"]


@pytest.mark.parametrize(
    "load",
    [
        BUSY_UPLINK,
        Load(link_bps={"spine0": {"leaf3": 9e8}}),
        Load(processor={"spine0": 1.0}),
        Load(free_slots={"spine0": 0}),
    ],
)
def test_sums_move_away_from_busy_nodes_and_keep_their_expression(load):
    made = make_plan("inc", TOPOLOGY)
    model = CostModel(TOPOLOGY, load=load)
    search = TreeSearch(model, made.ranks, able_switches(TOPOLOGY, load), like=made)
    fastest = search.fastest(model)
    assert fastest is not None
    moved = fastest.plan()
    assert roots(moved) == ["spine1"]
    assert fastest.cost.total_s == pytest.approx(model.estimate(moved, 1 << 20).total_s)
    moved.validate()
    assert moved.intervals == made.intervals
    assert all(moved.expression(i) == made.expression(i) for i in made.intervals)


def test_auto_uses_the_capacity_that_other_traffic_leaves():
    rack = TOPOLOGY.hosts[:2]
    idle = make_plan("auto", TOPOLOGY, rack, size_bytes=64 << 20)
    assert idle.algorithm == "inc"
    load = Load(free_slots=dict.fromkeys(TOPOLOGY.switches, 0))
    assert all(rule.node in rack for rule in make_plan("auto", TOPOLOGY, rack, load=load).rules)


def test_hosts_are_chosen_from_the_least_used_rack():
    assert choose_hosts(TOPOLOGY, 4).switches == ("leaf0",)
    assert choose_hosts(TOPOLOGY, 4, load=BUSY_UPLINK).hosts == ("h4", "h5", "h6", "h7")
    late = Load(late={"h0": 0.9})
    assert choose_hosts(TOPOLOGY, 3, load=late).hosts == ("h1", "h2", "h3")
    assert choose_hosts(TOPOLOGY, 4, load=late).hosts == ("h4", "h5", "h6", "h7")
    assert choose_hosts(TOPOLOGY, 16).hosts == TOPOLOGY.hosts


def test_hosts_of_other_jobs_are_excluded_and_racks_stay_whole():
    assert choose_hosts(TOPOLOGY, 4, taken=["h0"]).switches == ("leaf1",)
    # three of leaf0 are left: they are enough, and no other rack is begun
    assert choose_hosts(TOPOLOGY, 3, taken=["h0"]).hosts == ("h1", "h2", "h3")
    six = choose_hosts(TOPOLOGY, 6, taken=["h1", "h5"])
    assert six.hosts == ("h0", "h2", "h3", "h4", "h6", "h7"), "two racks, and no host is left over"


def test_one_busy_rack_is_better_than_two_idle_ones():
    taken = ["h4", "h5", "h8", "h9", "h12", "h13"]
    assert choose_hosts(TOPOLOGY, 4, taken=taken, load=BUSY_UPLINK).switches == ("leaf0",)


def test_hosts_of_a_fat_tree_share_a_pod():
    fat = load_topology("fat-tree:4")
    chosen = choose_hosts(fat, 4, taken=["h0"])
    assert set(chosen.hosts) == {"h4", "h5", "h6", "h7"}
    assert len(chosen.switches) == 3


def test_late_hosts_with_several_links_are_excluded():
    rails = load_topology("rails:9x2")
    assert choose_hosts(rails, 4, load=Load(late={"h0": 0.9})).hosts == rails.hosts[1:5]


def test_workers_of_one_host_are_preferred():
    hosts = load_topology("star:3").with_workers(4)
    assert choose_hosts(hosts, 4, taken=["h0.2"]).hosts == ("h1.0", "h1.1", "h1.2", "h1.3")


@pytest.mark.parametrize(
    ("ranks", "taken", "message"),
    [
        (0, (), "at least 1 rank, not 0"),
        (17, (), "17 ranks need as many hosts, and leaf-spine-4x2x4 has 16"),
        (15, ("h0", "h1"), "has 14: jobs run on the other 2"),
    ],
)
def test_more_ranks_than_free_hosts_are_refused(ranks, taken, message):
    with pytest.raises(PlanError, match=message):
        choose_hosts(load_topology("leaf-spine:4x2x4"), ranks, taken=taken)


def test_an_explanation_counts_workers_and_names_memory():
    topology = load_topology("star:2").with_workers(4, memory_rate_bps=1e9)
    topology = topology.with_overrides(rate_bps=1e10)
    why = explain(make_plan("inc", topology), topology, 1 << 20)
    said = why.sentences()
    assert said[0] == "Hosts: h0.0-h0.3, h1.0-h1.3."
    assert said[-1] == "It is within hosts: between workers and their host's memory."
    with pytest.raises(PlanError, match="9 ranks need as many workers, and star-2 has 8"):
        choose_hosts(topology, 9)


def test_an_explanation_names_the_trees_the_bottleneck_and_other_jobs():
    load = Load(link_bps={"leaf0": {"spine0": 9e8, "spine1": 9e8}})
    plan = make_plan("inc", TOPOLOGY, load=load)
    jobs = {"b": {("leaf0", "spine0"): 5e8}, "c": {("leaf1", "spine0"): 5e8}}
    why = explain(plan, TOPOLOGY, 1 << 20, load=load, jobs=jobs, hosts=choose_hosts(TOPOLOGY, 16))
    assert [len(tree) for tree, _ in why.trees] == [2, 1]
    assert why.trees[0][1] < why.trees[1][1]
    assert {b.link: dict(b.jobs) for b in why.bottlenecks} == {
        ("leaf0", "spine0"): {"b": 5e8},
        ("leaf0", "spine1"): {},
    }
    text = "\n".join(why.sentences())
    assert "Bottleneck: leaf0 to spine0" in text
    assert "others use 90% of it: job b 500 Mbit/s." in text
    assert why.to_dict()["adders"] == {
        **{f"leaf{n}": 1 for n in range(4)},
        "spine0": 1,
        "spine1": 1,
    }
