"""Paths: shortest, and the same for whoever asks."""

from __future__ import annotations

import itertools
from collections import Counter

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import PlanError
from innet.topology import Link, Topology, load_topology
from innet.topology.blueprint import Blueprint, PartDefaults
from innet.topology.routes import Routes

from .strategies import EXPRESSIONS


@given(EXPRESSIONS.map(load_topology), st.data())
def test_paths_are_shortest_and_never_diverge_after_meeting(
    topology: Topology, data: st.DataObject
) -> None:
    routes = Routes(topology)
    nodes = st.sampled_from(sorted(topology.nodes))
    start, towards = data.draw(nodes), data.draw(nodes)
    forwarding = topology.graph().subgraph({start, towards, *topology.switches})
    assert routes.reaches(start, towards) == nx.has_path(forwarding, start, towards)
    if not routes.reaches(start, towards):
        with pytest.raises(PlanError, match=f"no path leads from {start} to {towards}"):
            routes.path(start, towards)
        return
    path = routes.path(start, towards)
    shortest = nx.shortest_path(
        forwarding, start, towards, weight=lambda _u, _v, edge: weight(edge["link"])
    )
    assert cost(topology, path) == cost(topology, shortest)
    for index, node in enumerate(path):
        assert routes.path(node, towards) == path[index:]


def weight(link: Link) -> float:
    """Delay in nanoseconds; a link more counts less than the least difference in delay."""
    return round(link.delay_s * 1e9) + 1e-6


def cost(topology: Topology, path: list[str]) -> float:
    links = [topology.link_between(u, v) for u, v in itertools.pairwise(path)]
    return round(sum(weight(link) for link in links), 7)


def test_the_faster_of_equally_long_paths_is_used() -> None:
    blueprint = Blueprint()
    for switch in ("a", "slow", "fast", "b"):
        blueprint.add_switch(switch)
    for host, switch in (("h0", "a"), ("h1", "b")):
        blueprint.add_host(host)
        blueprint.connect(host, switch)
    for middle, delay_s in (("slow", 0.2), ("fast", 0.1)):
        blueprint.connect("a", middle, delay_s=delay_s)
        blueprint.connect(middle, "b", delay_s=delay_s)
    routes = Routes(blueprint.topology("square", PartDefaults()))
    assert routes.path("h0", "h1") == ["h0", "a", "fast", "b", "h1"]


def test_an_unknown_node_is_named() -> None:
    blueprint = Blueprint()
    blueprint.add_switch("s0")
    for host in ("h0", "h1"):
        blueprint.add_host(host)
        blueprint.connect(host, "s0")
    routes = Routes(blueprint.topology("pair", PartDefaults()))
    with pytest.raises(PlanError, match="no node 'h7'; it has h0, h1, s0"):
        routes.path("h0", "h7")
    with pytest.raises(PlanError, match="no path leads from h7 to h0"):
        routes.path("h7", "h0")


def test_all_core_switches_of_a_fat_tree_share_the_load() -> None:
    routes = Routes(load_topology("fat-tree:4"))
    # From pod 0 to the twelve hosts of the other pods, over four core switches.
    paths = [routes.path("h0", f"h{host}") for host in range(4, 16)]
    assert Counter(path[3] for path in paths) == {f"core{core}": 3 for core in range(4)}


def test_no_path_leads_through_a_host() -> None:
    routes = Routes(load_topology("rails:1x2"))
    assert routes.path("r0", "h0") == ["r0", "h0"]
    assert not routes.reaches("r0", "r1")
    with pytest.raises(PlanError, match="no path leads from r0 to r1"):
        routes.path("r0", "r1")


def test_rails_share_the_traffic_between_hosts() -> None:
    routes = Routes(load_topology("rails:8x2"))
    paths = [routes.path("h0", f"h{host}") for host in range(1, 8)]
    assert Counter(path[1] for path in paths) == {"r0": 3, "r1": 4}
    assert not routes.reaches("r0", "r1")
    assert [routes.path("h3", rail) for rail in ("r0", "r1")] == [["h3", "r0"], ["h3", "r1"]]
