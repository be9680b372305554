"""Generated networks are connected and have the shape that their family is known for."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import networkx as nx
import pytest
from hypothesis import given, settings

from innet.errors import TopologyError
from innet.topology import Switch, load_topology, parse_yaml
from innet.topology.summary import tiers

from .strategies import EXPRESSIONS


@settings(max_examples=60, deadline=None)
@given(EXPRESSIONS)
def test_every_generated_network_is_connected_with_links_for_each_host(expression: str) -> None:
    topology = load_topology(expression)
    graph = topology.graph()
    assert nx.is_connected(graph)
    links = int(expression.partition("x")[2]) if expression.startswith("rails") else 1
    assert {graph.degree[host] for host in topology.hosts} == {links}
    assert topology.hosts == tuple(f"h{rank}" for rank in range(len(topology.hosts)))


@settings(max_examples=30, deadline=None)
@given(EXPRESSIONS)
def test_hosts_of_a_switch_have_consecutive_ranks(expression: str) -> None:
    topology = load_topology(expression)
    attached = [next(iter(topology.graph()[host])) for host in topology.hosts]
    runs = [switch for switch, _ in groupby(attached)]
    assert len(runs) == len(set(runs))


def test_rails_may_have_subnets_of_their_own() -> None:
    text = "name: n\ntopology: {generate: {kind: rails, hosts: 2, rails: 2, subnets: [%s]}}"
    topology = parse_yaml(text % "10.1.0.0/16, 10.2.0.0/16")
    assert topology.link_between("h1", "r1").subnet == "10.2.0.0/16"
    with pytest.raises(TopologyError, match="a subnet for each of 2 rails, found 1"):
        parse_yaml(text % "10.1.0.0/16")


def test_a_fat_tree_has_k_ports_on_every_switch_and_its_full_bisection() -> None:
    for k in (2, 4, 6):
        topology = load_topology(f"fat-tree:{k}")
        half = k // 2
        sizes = [len(tier) for tier in tiers(topology)]
        assert sizes == [k * half * half, k * half, k * half, half * half]
        assert {topology.graph().degree[switch] for switch in topology.switches} == {k}
        pods = nx.number_connected_components(
            topology.graph().subgraph([n for tier in tiers(topology)[:3] for n in tier])
        )
        assert pods == k


def test_every_leaf_is_linked_to_every_spine() -> None:
    topology = load_topology("leaf-spine:4x2x3")
    assert [len(tier) for tier in tiers(topology)] == [12, 4, 2]
    pairs = Counter(frozenset(link.nodes) for link in topology.links)
    assert all(pairs[frozenset((f"leaf{a}", f"spine{b}"))] == 1 for a in range(4) for b in range(2))


def test_the_middle_link_of_a_dumbbell_is_its_only_connection() -> None:
    topology = load_topology("dumbbell:4")
    cut = topology.graph().copy()
    cut.remove_edge("s0", "s1")
    assert [len(part) for part in nx.connected_components(cut)] == [5, 5]
    assert len(topology.hosts) == 8


def test_sites_of_a_wan_have_two_neighbours_and_delays_of_fibre() -> None:
    topology = load_topology("wan:8")
    core = topology.graph().subgraph(topology.switches)
    assert min(degree for _, degree in core.degree()) >= 2
    for a, b in core.edges():
        assert 0 < topology.link_between(a, b).delay_s < 0.025
    assert load_topology("wan:8x1x0") != load_topology("wan:8x1x1")
    assert load_topology("wan:8x1x1") == load_topology("wan:8x1x1")


def test_a_generated_section_takes_defaults_and_settings_of_the_core() -> None:
    topology = parse_yaml(
        "name: t\ntopology:\n"
        "  generate: {kind: leaf-spine, leaves: 2, spines: 1, hosts-per-leaf: 1,"
        " core: {rate: 40gbit}}\n"
        "  defaults: {link: {rate: 10gbit, mtu: 1500}, switch: {slots: 8}}\n"
    )
    access, core = topology.link_between("h0", "leaf0"), topology.link_between("leaf0", "spine0")
    assert (access.rate_bps, core.rate_bps) == (10e9, 40e9)
    assert (access.mtu_bytes, core.mtu_bytes) == (1500, 1500)
    assert topology.nodes["spine0"] == Switch(name="spine0", slots=8)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("start:8", "unknown generator 'start'; did you mean 'star'?"),
        ("torus:8", "expected one of star, leaf-spine, fat-tree, dumbbell, rails, wan"),
        ("star:", "expected star:HOSTS, found 'star:'"),
        ("star:8x8", "expected star:HOSTS, found 'star:8x8'"),
        ("star:0", "expected at least 1, found 0"),
        ("leaf-spine:4x2", "'hosts-per-leaf', which is missing"),
        ("fat-tree:5", "multiple of 2, found 5"),
        ("star:9999999999", "at most 10000"),
        ("dumbbell:10000", "smaller network"),
    ],
)
def test_a_wrong_expression_is_refused_with_what_was_expected(
    expression: str, message: str
) -> None:
    with pytest.raises(TopologyError) as caught:
        load_topology(expression)
    assert message in str(caught.value)
