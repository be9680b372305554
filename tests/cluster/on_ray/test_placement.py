"""Which nodes of a Ray cluster can be machines, and what is said when none can."""

from __future__ import annotations

import pytest

from innet.cluster.on_ray import launcher
from innet.cluster.on_ray.launcher import RayMachines, RayOptions
from innet.cluster.on_ray.placement import (
    ClusterView,
    RayNode,
    Reservation,
    machines_with_room,
    matches,
    no_room,
    parsed_resources,
    require_nodes,
)
from innet.errors import EmulationError, InnetError
from innet.topology.from_ray import NODE_ID_LABEL


def node(name: str, rack: str, cpus: float = 2, free: float | None = None) -> RayNode:
    return RayNode(
        address=name,
        labels={NODE_ID_LABEL: name, "rack": rack},
        resources={"CPU": cpus},
        available=None if free is None else {"CPU": free},
    )


def reservation(cpus: float = 1, **racks: str | None) -> Reservation:
    machines = {name: {} if rack is None else {"rack": rack} for name, rack in racks.items()}
    return Reservation(machines=machines, resources={"CPU": cpus}, wait_s=1)


@pytest.mark.parametrize(
    ("condition", "racks"),
    [
        ("a", ["a"]),
        ("!a", ["b", None]),
        ("in(a, b)", ["a", "b"]),
        ("in(a,b)", ["a", "b"]),
        ("!in(a, b)", [None]),
    ],
)
def test_label_conditions_are_parsed(condition, racks) -> None:
    nodes: dict[str | None, dict[str, str]] = {"a": {"rack": "a"}, "b": {"rack": "b"}, None: {}}
    assert [r for r, labels in nodes.items() if matches(labels, {"rack": condition})] == racks


def test_machines_and_nodes_are_matched() -> None:
    # The first that fits h1 is the only one that fits h2.
    require_nodes(reservation(h1=None, h2="a"), [node("n0", "a"), node("n1", "b")])


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (reservation(h1="c"), r"machine h1, which needs rack=c: its nodes have rack=a, b\. Start"),
        (reservation(3, h1="a"), "h1, which needs CPU 3: those with its labels have at most CPU 2"),
        (reservation(h1="a", h2="a"), "each of 2 machines .* none is left for h2"),
        (reservation(3, h1=None, h2=None), "have that, and none is left for h2|at most CPU 4"),
    ],
)
def test_a_machine_without_a_node_is_named(asked, expected) -> None:
    with pytest.raises(EmulationError, match=expected):
        require_nodes(asked, [node("n0", "a"), node("n1", "b", cpus=4)])


def test_a_label_that_no_node_has_gets_a_suggestion() -> None:
    asked = Reservation(machines={"h1": {"rak": "a"}}, resources={"CPU": 1}, wait_s=1)
    with pytest.raises(EmulationError, match="no node has a label 'rak'; did you mean 'rack'"):
        require_nodes(asked, [node("n0", "a")])


def test_machines_that_wait_for_resources_are_named() -> None:
    busy = [node("n0", "a", free=0), node("n1", "b", free=2)]
    said = no_room(reservation(h1="a", h2="b"), busy)
    assert said == "no node with CPU 1 free is left for h1 (rack=a)"
    assert "Ray has not placed them yet" in no_room(reservation(h2="b"), busy)


def test_only_nodes_with_free_resources_become_hosts() -> None:
    head = node("n0", "a", cpus=0)
    view = ClusterView(own_address="10.0.0.1", nodes=(head, node("n1", "b", cpus=4, free=0)))
    (found,) = machines_with_room(view, {"CPU": 1.0})
    assert (found.labels[NODE_ID_LABEL], found.processors) == ("n1", 4)


@pytest.mark.parametrize("text", ["", "CPU", "CPU=", "=1", "CPU=x", "CPU=1,,", "CPU=-1"])
def test_invalid_resources_are_refused(text) -> None:
    with pytest.raises(ValueError, match="expected resources such as CPU=8,GPU=1"):
        parsed_resources(text)


def test_without_ray_the_message_says_how_to_install_it(monkeypatch) -> None:
    monkeypatch.setattr("innet.extras.is_installed", lambda library: False)
    with pytest.raises(
        InnetError, match=r"innet up --on ray needs ray.*pip install 'innet\[ray\]'"
    ):
        RayMachines(RayOptions("ray", {"CPU": 1}, wait_s=1, restarts=0))


def test_a_silent_driver_is_reported(monkeypatch) -> None:
    monkeypatch.setattr(launcher, "require", lambda *_: None)
    monkeypatch.setattr(launcher, "_DRIVER", ("sh", "-c", "echo cannot go on >&2; exit 7"))
    machines = RayMachines(RayOptions("ray://h0:10001", {"CPU": 1}, wait_s=1, restarts=0))
    with pytest.raises(EmulationError, match=r"ray://h0:10001 with 7: cannot go on\. Check"):
        _ = machines.view
