"""Hosts with several workers: each is a node, below that of its host."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from innet.plans import bytes_per_link, make_plan, rank_order
from innet.plans.bounds import bounds_of_levels_s
from innet.topology import Host, Interface, Link, Topology, dump_yaml, load_topology, parse_yaml
from innet.topology.credit import receive_credit_bytes, receive_rate_bps
from innet.topology.events import TopologyEvent, nodes_hit, targets_of
from innet.topology.show import draw, text
from innet.topology.summary import counts

from .strategies import EXPRESSIONS

TWO = load_topology("star:2").with_workers(2)
UNEVEN = parse_yaml(
    """
    name: uneven
    topology:
      defaults: {host: {workers: 2, cache: 1MiB}, link: {rate: 1gbit, mtu: 1500}}
      nodes:
        b: {kind: host, rank: 0}
        a: {kind: host, rank: 2, workers: 1}
        c: {kind: host, rank: 1, workers: 3}
        s0: {kind: switch, slots: 0}
      links:
        - endpoints: ["a:eth0", "s0:eth0"]
        - endpoints: ["b:eth0", "s0:eth1"]
        - endpoints: ["c:eth0", "s0:eth2"]
    """
)


def test_a_worker_is_a_host_below_the_node_of_its_host() -> None:
    assert TWO.hosts == ("h0.0", "h0.1", "h1.0", "h1.1")
    assert (TWO.machines, TWO.separate_switches) == (("h0", "h1"), ("s0",))
    assert TWO.workers_of == {"h0": ("h0.0", "h0.1"), "h1": ("h1.0", "h1.1")}
    roles = {name: TWO.role_of(name) for name in ("s0", "h0", "h0.1")}
    assert roles == {"s0": "switch", "h0": "host", "h0.1": "worker"}
    assert [TWO.machine_of[name] for name in ("s0", "h0", "h1.1")] == ["s0", "h0", "h1"]


def test_ranks_follow_those_of_the_hosts() -> None:
    assert UNEVEN.hosts == ("b.0", "b.1", "c.0", "c.1", "c.2", "a")
    assert UNEVEN.machines == ("b", "c", "a")


def test_a_selection_of_hosts_names_their_workers() -> None:
    assert UNEVEN.ranks_on(["a", "b", "c.1"]) == ("a", "b.0", "b.1", "c.1")


def test_links_within_a_host_have_the_packets_of_its_own_link() -> None:
    within = [link for link in UNEVEN.links if link.in_memory]
    assert len(within) == 5
    assert not any(link.is_shaped for link in within)
    assert {link.mtu_bytes for link in within} == {1500}
    assert {node.cache_bytes for name, node in UNEVEN.nodes.items() if name != "s0"} == {2**20}


def test_options_for_links_and_switches_do_not_change_hosts() -> None:
    changed = UNEVEN.with_overrides(rate_bps=1e6, mtu_bytes=9000, slots=7)
    within = [link for link in changed.links if link.in_memory]
    assert {(link.rate_bps, link.mtu_bytes) for link in within} == {(None, 9000)}
    assert {link.rate_bps for link in changed.links if not link.in_memory} == {1e6}
    slots = {name: getattr(changed.nodes[name], "slots") for name in changed.switches}  # noqa: B009
    assert slots == {"s0": 7, "b": 4096, "c": 4096}
    timed = changed.with_defaults(rate_bps=1e9, delay_s=1.0)
    assert [link for link in timed.links if link.in_memory] == within


@settings(max_examples=20, deadline=None)
@given(EXPRESSIONS)
def test_the_number_of_workers_can_be_changed_and_changed_back(expression: str) -> None:
    topology = load_topology(expression)
    several = topology.with_workers(3)
    assert len(several.hosts) == 3 * len(topology.hosts)
    assert several.with_workers(1) == topology
    assert topology.with_workers(2).with_workers(3) == several
    assert parse_yaml(dump_yaml(several)) == several
    assert Topology.model_validate_json(several.model_dump_json()) == several


@settings(max_examples=20, deadline=None)
@given(EXPRESSIONS)
def test_each_link_of_a_host_carries_one_contribution_and_one_sum(expression: str) -> None:
    topology = load_topology(expression).with_workers(3)
    plan = make_plan("inc", topology, rank_order(topology))
    carried = bytes_per_link(plan, topology, 1 << 20, segment_bytes=1 << 10)
    for link in topology.links:
        if {*link.nodes} & {*topology.workers_of}:
            assert max(carried.get(ends, 0) for ends in (link.nodes, link.nodes[::-1])) <= 1 << 20


@settings(max_examples=20, deadline=None)
@given(EXPRESSIONS)
def test_a_parameter_server_receives_one_contribution_of_each_host(expression: str) -> None:
    topology = load_topology(expression).with_workers(3)
    ranks = rank_order(topology)
    carried = bytes_per_link(make_plan("ps", topology, ranks), topology, 1 << 20)
    for host in {*topology.workers_of} - {topology.machine_of[ranks[0]]}:
        links = topology.links_of[host].values()
        rails = [link.end_opposite(host).node for link in links if not link.in_memory]
        assert sum(carried.get((host, rail), 0) for rail in rails) == 1 << 20
        assert sum(carried.get((rail, host), 0) for rail in rails) == 1 << 20


def test_a_server_sums_successive_ranks_of_other_hosts() -> None:
    ranks = ("h1.0", "h0.0", "h0.1", "h2.0", "h2.1", "h1.1")
    plan = make_plan("ps", load_topology("star:3").with_workers(2), ranks)
    assert [(rule.node, str(rule.interval)) for rule in plan.rules] == [
        ("h0", "1-2"),
        ("h2", "3-4"),
        ("h1.0", "0-5"),
    ]
    alone = make_plan("ps", load_topology("star:2").with_workers(2), ranks[1:3], server="s0")
    assert [(rule.node, str(rule.interval)) for rule in alone.rules] == [("s0", "0-1")]


def test_the_rate_to_the_hosts_memory_limits_each_worker() -> None:
    text = """
name: pcie
topology:
  defaults: {host: {workers: 8, memory-rate: 100mbit}, link: {rate: 1gbit}}
  generate: {kind: star, hosts: 4}
"""
    topology = parse_yaml(text)
    assert topology == load_topology("star:4").with_overrides(rate_bps=1e9).with_workers(
        8, memory_rate_bps=100e6
    ).model_copy(update={"name": "pcie"})
    assert parse_yaml(dump_yaml(topology)) == topology
    assert {x.rate_bps for x in topology.links if x.in_memory} == {100e6}
    plan = make_plan("inc", topology, rank_order(topology))
    assert bounds_of_levels_s(plan, topology, 10**6) == pytest.approx((0.08, 0.008))
    assert [receive_rate_bps(topology, node) for node in ("h0.0", "h0")] == [100e6, 0]
    faster = topology.with_workers(memory_rate_bps=2e9)
    assert receive_rate_bps(faster, "h3.7") == 1e9
    without = topology.with_workers(2, memory_rate_bps=None)
    assert bounds_of_levels_s(make_plan("inc", without), without, 10**6) == (0, 0.008)


def test_a_host_with_one_worker_and_a_rate_to_it_has_a_node_for_each() -> None:
    topology = load_topology("star:2").with_workers(memory_rate_bps=1e8)
    assert topology.hosts == ("h0.0", "h1.0")
    assert topology.machines == ("h0", "h1")
    assert topology.with_workers(memory_rate_bps=None) == load_topology("star:2")


def test_a_single_machine_needs_no_switch() -> None:
    alone = Topology(name="alone", nodes={"h0": Host(name="h0", workers=4)})
    plan = make_plan("inc", alone, rank_order(alone))
    assert [(rule.node, str(rule.interval)) for rule in plan.rules] == [("h0", "0-3")]


def test_two_hosts_on_one_link_add_on_both() -> None:
    hosts = {name: Host(name=name, workers=2) for name in ("h0", "h1")}
    link = Link(a=Interface.parse("h0:eth0"), b=Interface.parse("h1:eth0"))
    pair = Topology(name="pair", nodes=hosts, links=(link,))
    plan = make_plan("inc", pair, rank_order(pair))
    assert {str(rule.interval) for rule in plan.rules} >= {"0-3"}
    assert {rule.node for rule in plan.rules} == {"h0", "h1"}


def test_workers_share_the_queue_credit_of_their_host() -> None:
    alone = load_topology("star:2").with_overrides(rate_bps=1e9)
    shared = alone.with_workers(2)
    credit = receive_credit_bytes(alone, "h0")
    assert credit / 2 <= receive_credit_bytes(shared, "h0.0") < credit
    assert receive_credit_bytes(shared, "h0") == 0


def test_events_of_a_host_apply_to_its_workers() -> None:
    def targets(anything: str) -> list[str]:
        event = TopologyEvent(kind="crash", targets=anything)  # type: ignore[arg-type]
        return [" ".join(target) for target in targets_of(event, UNEVEN)]

    assert targets("any host") == ["b", "c", "a"]
    assert targets("any switch") == ["s0"]
    assert targets("any link") == ["a s0", "b s0", "c s0"]
    crash, slow = (TopologyEvent(kind=kind, targets=(("b",),)) for kind in ("crash", "straggle"))
    assert nodes_hit(crash, "b", UNEVEN) == ("b", "b.0", "b.1")
    assert nodes_hit(slow, "b", UNEVEN) == ("b.0", "b.1")
    assert nodes_hit(crash, "a", UNEVEN) == ("a",)


def test_texts_show_hosts_with_their_workers(tmp_path: Path) -> None:
    assert counts(UNEVEN) == "3 hosts with 6 workers, 1 switch, 3 links"
    assert counts(load_topology("star:2")) == "2 hosts, 1 switch, 2 links"
    shown = text(UNEVEN)
    assert "c.0  memory" in shown
    assert shown.splitlines()[1] == "s0"
    pytest.importorskip("matplotlib")
    draw(UNEVEN, tmp_path / "uneven.svg")
    drawn = (tmp_path / "uneven.svg").read_text()
    assert "3 hosts with 6 workers" in drawn
    assert "memory" not in drawn
