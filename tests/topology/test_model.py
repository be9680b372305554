"""A topology that exists is valid, immutable, and answers the questions of planners and drivers."""

from __future__ import annotations

import networkx as nx
import pytest
from pydantic import ValidationError

from innet.errors import TopologyError
from innet.topology import Host, Interface, Link, Overrides, Switch, Topology, load_topology


def link(a: str, b: str, **settings: object) -> Link:
    return Link.model_validate({"a": Interface.parse(a), "b": Interface.parse(b), **settings})


def pair(**hosts: int | None) -> Topology:
    """Hosts with ranks on one switch."""
    nodes = {name: Host(name=name, rank=rank) for name, rank in hosts.items()}
    links = tuple(link(f"{name}:eth0", f"s0:{name}") for name in hosts)
    return Topology(name="t", nodes={"s0": Switch(name="s0"), **nodes}, links=links)


def test_hosts_are_in_natural_order_without_ranks() -> None:
    assert pair(h10=None, h2=None, h1=None).hosts == ("h1", "h2", "h10")


def test_hosts_are_in_the_order_of_their_ranks() -> None:
    assert pair(a=2, b=0, c=1).hosts == ("b", "c", "a")


def test_a_link_is_found_in_either_order_and_by_the_graph() -> None:
    star = load_topology("star:2")
    found = star.link_between("s0", "h1")
    assert found == star.link_between("h1", "s0") == star.graph().edges["h1", "s0"]["link"]
    assert str(found.end_at("h1")) == "h1:eth0"
    assert str(found.end_opposite("h1")) == "s0:eth1"
    with pytest.raises(TopologyError, match="no link between 'h0' and 'h1'"):
        star.link_between("h0", "h1")


def test_the_topology_and_its_graph_are_immutable() -> None:
    star = load_topology("star:2")
    with pytest.raises(nx.NetworkXError):
        star.graph().add_node("h2")
    with pytest.raises(ValidationError):
        star.name = "other"


def test_overrides_replace_only_the_settings_of_links_and_switches() -> None:
    star = load_topology("star:2").with_overrides(
        rate_bps=200e6, delay_s=1e-3, loss=0.01, queue_bytes=2**16, mtu_bytes=1500, slots=4
    )
    for each in star.links:
        assert (each.rate_bps, each.delay_s, each.loss) == (200e6, 1e-3, 0.01)
        assert (each.queue_bytes, each.mtu_bytes) == (2**16, 1500)
    assert star.nodes["s0"] == Switch(name="s0", slots=4)
    assert star.with_overrides(loss=0.0).links[0].rate_bps == 200e6
    assert star.with_overrides(reorder=0.1, reorder_delay_s=1.0).links[0].impaired
    assert star.with_overrides(rate_bps=None).links[0].rate_bps is None
    assert star.with_overrides() == star


@pytest.mark.parametrize(
    "override",
    [
        Overrides(rate_bps=-1.0),
        Overrides(rate_bps=0.0),
        Overrides(loss=1.0),
        Overrides(delay_s=-1.0),
        Overrides(mtu_bytes=0),
        Overrides(slots=-1),
        Overrides(jitter_s=-1.0),
        Overrides(reorder=0.1),
        Overrides(reorder=1.1, reorder_delay_s=0.1),
        Overrides(duplicate=-0.1),
        Overrides(corrupt=1.0),
    ],
    ids=str,
)
def test_overrides_out_of_range_are_refused(override: Overrides) -> None:
    with pytest.raises(TopologyError, match=next(iter(override))):
        load_topology("star:2").with_overrides(**override)


def test_marks_start_at_half_of_the_queue_whatever_its_size() -> None:
    assert link("a:e", "b:e").mark_threshold_bytes == 262144
    assert link("a:e", "b:e", queue_bytes=20000).mark_threshold_bytes == 10000
    assert link("a:e", "b:e", mark_bytes=5).mark_threshold_bytes == 5


def test_a_queue_holds_at_least_a_packet_and_the_mark_lies_within() -> None:
    with pytest.raises(TopologyError, match="queue of at least one packet"):
        link("a:e", "b:e", queue_bytes=1000, mtu_bytes=1500)
    with pytest.raises(TopologyError, match="mark threshold within the queue"):
        link("a:e", "b:e", queue_bytes=10000, mark_bytes=20000)


def test_a_topology_made_in_memory_obeys_the_same_rules_as_a_file() -> None:
    with pytest.raises(TopologyError, match="at least one node of kind 'host'"):
        Topology(name="t", nodes={"s0": Switch(name="s0")})
    with pytest.raises(TopologyError, match="is listed as 'h1'"):
        Topology(name="t", nodes={"h1": Host(name="h0")})
    with pytest.raises(TopologyError, match="Host: name: expected a name"):
        Host(name="no spaces")
    with pytest.raises(TopologyError, match='expected "node:port"'):
        Interface.parse("h0")
