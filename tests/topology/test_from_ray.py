"""The topology of the machines of a Ray cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from innet.errors import TopologyError
from innet.topology import Topology, load_topology
from innet.topology.from_ray import NODE_ID_LABEL, ClusterMachine


def machine(node_id: str, rack: str | None = None, **settings: int) -> ClusterMachine:
    labels = {NODE_ID_LABEL: node_id} | ({} if rack is None else {"rack": rack})
    return ClusterMachine(labels, **{"processors": 4, **settings})


def generated(tmp_path: Path, *machines: ClusterMachine, settings: str = "") -> Topology:
    path = tmp_path / "all.yaml"
    path.write_text(f"name: all\ntopology:\n  generate: {{kind: from-ray{settings}}}\n")
    return load_topology(path, lambda: machines)


def links(topology: Topology) -> set[tuple[str, ...]]:
    return {tuple(sorted(link.nodes)) for link in topology.links}


def test_each_rack_has_a_switch_on_its_first_machine_and_a_root_is_above(tmp_path) -> None:
    found = generated(tmp_path, machine("n0", "b"), machine("n1", "a"), machine("n2", "a"))
    assert links(found) == {
        ("h0", "rack-a"),
        ("h1", "rack-a"),
        ("h2", "rack-b"),
        ("rack-a", "s0"),
        ("rack-b", "s0"),
    }
    switches = {switch: found.placement[switch] for switch in found.switches}
    assert switches == {"rack-a": "h0", "rack-b": "h2", "s0": "h0"}
    assert found.machine_labels == {"h0": {"rack": "a"}, "h1": {"rack": "a"}, "h2": {"rack": "b"}}


def test_without_racks_one_switch_joins_the_machines(tmp_path) -> None:
    found = generated(tmp_path, machine("n0"), machine("n1"))
    assert links(found) == {("h0", "s0"), ("h1", "s0")}
    assert found.machine_labels == {"h0": {NODE_ID_LABEL: "n0"}, "h1": {NODE_ID_LABEL: "n1"}}


def test_machines_without_a_rack_have_a_switch_beside_the_racks(tmp_path) -> None:
    found = generated(tmp_path, machine("n0"), machine("n1", "a"))
    assert links(found) == {("h0", "rack-a"), ("h1", "s1"), ("rack-a", "s0"), ("s0", "s1")}


def test_different_machines_of_a_rack_are_distinguished(tmp_path) -> None:
    few, many = machine("n0", "a", accelerators=1), machine("n1", "a", accelerators=8)
    found = generated(tmp_path, few, many, settings=", workers: per-accelerator")
    assert found.workers_of["h1"] == tuple(f"h1.{number}" for number in range(8))
    assert found.machine_labels == {"h0": {NODE_ID_LABEL: "n0"}, "h1": {NODE_ID_LABEL: "n1"}}


@pytest.mark.parametrize(("workers", "ranks"), [("3", 3), ("per-processor", 4)])
def test_workers_are_a_number_or_follow_the_machine(tmp_path, workers, ranks) -> None:
    assert len(generated(tmp_path, machine("n0"), settings=f", workers: {workers}").hosts) == ranks


def test_a_rack_can_be_another_label_and_any_text(tmp_path) -> None:
    one = ClusterMachine({NODE_ID_LABEL: "n0", "zone": "z" * 60}, processors=1)
    other = ClusterMachine({NODE_ID_LABEL: "n1", "zone": "y"}, processors=1)
    found = generated(tmp_path, one, other, settings=", rack: zone")
    assert found.separate_switches == ("rack1", "rack-y", "s0")


def test_a_cluster_without_machines_is_refused(tmp_path) -> None:
    with pytest.raises(TopologyError, match="has no machine with room"):
        generated(tmp_path)
    with pytest.raises(TopologyError, match=r"all.yaml:3: .*innet up FILE --on ray"):
        load_topology(tmp_path / "all.yaml")
