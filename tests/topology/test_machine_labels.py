"""``machine:`` of a node may be labels of its machine."""

from __future__ import annotations

import pytest

from innet.errors import TopologyError
from innet.topology import Topology, dump_yaml, parse_yaml


def topology(machine: str) -> Topology:
    return parse_yaml(
        f"""
        name: rack
        topology:
          nodes:
            h0: {{kind: host, workers: 2, machine: {machine}}}
            s0: {{kind: switch, machine: h0}}
            s1: {{kind: switch, machine: {{rack: b, zone: "!c"}}}}
          links:
            - endpoints: ["h0:eth0", "s0:eth0"]
            - endpoints: ["s0:eth1", "s1:eth0"]
        """
    )


def test_a_node_with_labels_is_on_a_machine_of_its_own_name() -> None:
    found = topology('{rack: "in(a, b)"}')
    assert found.placement == {"h0": "h0", "h0.0": "h0", "h0.1": "h0", "s0": "h0", "s1": "s1"}
    assert found.machine_labels == {
        "h0": {"rack": "in(a, b)"},
        "s1": {"rack": "b", "zone": "!c"},
    }


def test_labels_are_written_back() -> None:
    found = topology("{rack: a}")
    assert parse_yaml(dump_yaml(found)) == found
    assert Topology.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ("{}", "expected at least one label, such as {rack: a}, found none"),
        ("{rack: 1}", "expected text .*, found 1"),
        ("{rack: '?'}", r"label rack: expected a value such as a, or !a, in\(a, b\)"),
        ("{' ': a}", "expected the name of a label, such as rack, found ' '"),
        ("' '", "expected a name of 1 to 32 characters"),
    ],
)
def test_invalid_labels_are_refused_with_their_place(machine, expected) -> None:
    with pytest.raises(TopologyError, match=rf"topology.nodes.h0.machine: {expected}"):
        topology(machine)
