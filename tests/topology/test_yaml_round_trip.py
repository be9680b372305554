"""What is written as YAML reads back as the same topology."""

from __future__ import annotations

from hypothesis import given, settings

from innet.topology import Topology, dump_yaml, load_topology, parse_yaml

from .strategies import EXPRESSIONS, topologies


@settings(max_examples=60, deadline=None)
@given(topologies())
def test_a_written_topology_reads_back_the_same(topology: Topology) -> None:
    assert parse_yaml(dump_yaml(topology)) == topology


@settings(max_examples=20, deadline=None)
@given(EXPRESSIONS)
def test_a_generated_topology_can_be_written_out(expression: str) -> None:
    topology = load_topology(expression)
    assert parse_yaml(dump_yaml(topology)) == topology


def test_settings_come_from_the_model_then_the_defaults_then_the_part() -> None:
    topology = parse_yaml(
        """
        name: t
        topology:
          defaults:
            switch: {slots: 16}
            host: {cache: 1MiB}
            link: {rate: 200mbit, loss: 1%}
          nodes:
            h0: {kind: host}
            h1: {kind: host, cache: 0}
            s0: {kind: switch, cache-policy: lru}
          links:
            - endpoints: ["h0:eth0", "s0:eth0"]
            - {endpoints: ["h1:eth0", "s0:eth1"], rate: unlimited, delay: 1ms, queue: 64KiB}
        """
    )
    s0, (first, second) = topology.nodes["s0"], topology.links
    assert s0.model_dump(exclude={"name", "kind"}) == {
        "slots": 16,
        "cache_bytes": 64 * 2**20,
        "cache_policy": "lru",
        "machine": None,
    }
    assert [topology.nodes[host].cache_bytes for host in topology.hosts] == [2**20, 0]
    assert (first.rate_bps, first.loss, first.delay_s) == (200e6, 0.01, 0.0)
    assert (second.rate_bps, second.loss, second.delay_s) == (None, 0.01, 1e-3)
    assert (first.queue_bytes, second.queue_bytes) == (512 * 2**10, 64 * 2**10)


def test_nodes_can_have_names_that_yaml_reads_as_other_types() -> None:
    text = "name: t\ntopology: {nodes: {on: {kind: host}, 1: {kind: host}}, links: [%s]}"
    assert parse_yaml(text % "{endpoints: [on:e, '1:e']}").hosts == ("1", "on")


def test_nodes_keep_their_machines() -> None:
    topology = parse_yaml(
        """
        name: placed
        topology:
          nodes:
            h0: {kind: host, machine: rack1}
            h1: {kind: host, workers: 2}
            s0: {kind: switch}
            s1: {kind: switch, machine: rack1}
          links:
            - endpoints: ["h0:eth0", "s0:eth0"]
            - endpoints: ["h1:eth0", "s1:eth0"]
            - endpoints: ["s0:eth1", "s1:eth1"]
        """
    )
    assert topology.placement == {
        "h0": "rack1",
        "h1": "h1",
        "h1.0": "h1",
        "h1.1": "h1",
        "s0": "launcher",
        "s1": "rack1",
    }
    assert parse_yaml(dump_yaml(topology)) == topology
