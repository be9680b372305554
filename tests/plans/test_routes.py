"""Paths: shortest, and the same for whoever asks."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import PlanError
from innet.plans.routes import Routes
from innet.topology import Topology
from innet.topology.blueprint import Blueprint, PartDefaults


@given(st.from_type(Topology), st.data())
def test_paths_are_shortest_and_meet_for_good(topology: Topology, data: st.DataObject) -> None:
    routes = Routes(topology)
    nodes = st.sampled_from(sorted(topology.nodes))
    start, towards = data.draw(nodes), data.draw(nodes)
    path = routes.path(start, towards)
    graph = topology.graph()
    assert len(path) == nx.shortest_path_length(graph, start, towards) + 1
    assert nx.is_path(graph, path)
    for index, node in enumerate(path):
        assert routes.path(node, towards) == path[index:]


def test_of_equally_long_paths_the_faster_is_taken() -> None:
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


def test_an_unknown_node_is_named(star: Callable[..., Topology]) -> None:
    routes = Routes(star(2))
    with pytest.raises(PlanError, match="no node 'h7'; it has h0, h1, s0"):
        routes.path("h0", "h7")
    with pytest.raises(PlanError, match="no path leads from h7 to h0"):
        routes.path("h7", "h0")
