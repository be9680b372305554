"""Assigns the machines of a network to nodes of a Ray cluster, or says why that is impossible."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict

from innet.errors import EmulationError
from innet.suggestions import did_you_mean
from innet.topology.from_ray import ClusterMachine

_MAX_SHOWN: Final = 8

Labels = Mapping[str, str]
Resources = Mapping[str, float]


class RayNode(BaseModel):
    """A node of a Ray cluster.

    Attributes:
        address: of the node, as Ray knows it.
        resources: all that it has.
        available: what of it nobody has reserved; ``None``: not known.
    """

    model_config = ConfigDict(frozen=True)

    address: str
    labels: Labels
    resources: Resources
    available: Resources | None = None


class ClusterView(BaseModel):
    """The nodes of a Ray cluster.

    Attributes:
        own_address: of this machine, as seen from the cluster.
        nodes: those that are alive.
    """

    model_config = ConfigDict(frozen=True)

    own_address: str
    nodes: tuple[RayNode, ...]


class Reservation(BaseModel):
    """The resources reserved for the machines of a network.

    Attributes:
        machines: the labels that each one needs, by its name.
        resources: what each one gets, by Ray's names (``CPU``, ``GPU``).
        wait_s: how long Ray may look for room.
    """

    model_config = ConfigDict(frozen=True)

    machines: Mapping[str, Labels]
    resources: Resources
    wait_s: float


def parsed_resources(text: str) -> dict[str, float]:
    """The resources in a text such as ``CPU=8,GPU=1``.

    Raises:
        ValueError: it is no such text.

    >>> parsed_resources("CPU=8, GPU=0.5")
    {'CPU': 8.0, 'GPU': 0.5}
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, amount = (piece.strip() for piece in part.partition("="))
        if not (name and equals and re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,4})?", amount)):
            raise ValueError(f"expected resources such as CPU=8,GPU=1, found {text!r}")
        found[name] = float(amount)
    return found


def matches(labels: Labels, asked: Labels) -> bool:
    """Whether a node with ``labels`` fulfils conditions such as ``a``, ``!a`` and ``in(a, b)``."""
    return all(_fulfils(labels.get(key), condition) for key, condition in asked.items())


def _fulfils(value: str | None, condition: str) -> bool:
    positive = condition.removeprefix("!")
    listed = re.fullmatch(r"in\((.*)\)", positive)
    wanted = [part.strip() for part in listed[1].split(",")] if listed else [positive]
    return (value in wanted) == (positive == condition)


def machines_with_room(view: ClusterView, resources: Resources) -> list[ClusterMachine]:
    """The nodes of a cluster that have as much as is reserved on each, used or not."""
    return [
        ClusterMachine(
            node.labels,
            processors=int(node.resources.get("CPU", 0)),
            accelerators=int(node.resources.get("GPU", 0)),
        )
        for node in view.nodes
        if _has(node.resources, resources)
    ]


def require_nodes(reservation: Reservation, nodes: Sequence[RayNode]) -> None:
    """Check that the cluster has a node for each machine, if all of it were free.

    Raises:
        EmulationError: it lacks some; the message says for which machine, and what there is.
    """
    for machine, asked in reservation.machines.items():
        labelled = [node for node in nodes if matches(node.labels, asked)]
        if not labelled:
            raise EmulationError(
                f"no node of the Ray cluster can be machine {machine}, which needs "
                f"{_shown_labels(asked)}: {_label_values(asked, nodes)}. Start one with these "
                "labels (ray start --labels), or change `machine:` in the topology file"
            )
        if not any(_has(node.resources, reservation.resources) for node in labelled):
            raise EmulationError(
                f"no node of the Ray cluster can be machine {machine}, which needs "
                f"{shown_resources(reservation.resources)}: "
                f"{_most(labelled, reservation.resources)}. Reserve less: --reserve"
            )
    if unplaced := _unplaced(reservation, nodes, free=False):
        each = shown_resources(reservation.resources)
        fitting = sum(_has(node.resources, reservation.resources) for node in nodes)
        raise EmulationError(
            f"the Ray cluster has too few nodes: each of {len(reservation.machines)} machines "
            f"needs one of its own with {each}, {fitting} have that, and none is left for "
            f"{_listed(unplaced)}. Add nodes, reserve less (--reserve), or put several nodes of "
            "the network on one machine (`machine:` in the topology file)"
        )


def no_room(reservation: Reservation, nodes: Sequence[RayNode]) -> str:
    """Why Ray does not place the machines: those for which no free node is left."""
    each = shown_resources(reservation.resources)
    unplaced = _unplaced(reservation, nodes, free=True)
    if not unplaced:
        return f"its nodes have {each} free for each machine, and Ray has not placed them yet"
    described = [
        machine + (f" ({_shown_labels(asked)})" if (asked := reservation.machines[machine]) else "")
        for machine in unplaced
    ]
    return f"no node with {each} free is left for {_listed(described)}"


def _unplaced(reservation: Reservation, nodes: Sequence[RayNode], *, free: bool) -> list[str]:
    """The machines that have no node when as many as possible have one each.

    This is a maximum matching, by augmenting paths.
    """
    needed = reservation.resources
    candidates = {
        machine: [
            number
            for number, node in enumerate(nodes)
            if matches(node.labels, asked) and _has(_of_node(node, free=free), needed)
        ]
        for machine, asked in reservation.machines.items()
    }
    machine_on: dict[int, str] = {}

    def place(machine: str, tried: set[int]) -> bool:
        for number in candidates[machine]:
            if number not in tried:
                tried.add(number)
                if number not in machine_on or place(machine_on[number], tried):
                    machine_on[number] = machine
                    return True
        return False

    return [machine for machine in candidates if not place(machine, set())]


def _of_node(node: RayNode, *, free: bool) -> Resources:
    return node.available if free and node.available is not None else node.resources


def shown_resources(resources: Resources) -> str:
    """``CPU 8, GPU 1``."""
    return ", ".join(f"{name} {amount:g}" for name, amount in resources.items())


def _has(available: Resources, needed: Resources) -> bool:
    return all(available.get(name, 0) >= amount for name, amount in needed.items())


def _shown_labels(labels: Labels) -> str:
    return ", ".join(f"{key}={condition}" for key, condition in labels.items())


def _label_values(asked: Labels, nodes: Sequence[RayNode]) -> str:
    """The cluster's values of the requested labels."""
    found = []
    for key in asked:
        values = sorted({node.labels[key] for node in nodes if key in node.labels})
        known = sorted({name for node in nodes for name in node.labels})
        missing = f"no node has a label {key!r}{did_you_mean(key, known)}"
        found.append(f"its nodes have {key}={_listed(values)}" if values else missing)
    return "; ".join(found)


def _most(nodes: Sequence[RayNode], resources: Resources) -> str:
    """The largest amounts of resources that nodes have."""
    most = {name: max(n.resources.get(name, 0) for n in nodes) for name in resources}
    return f"those with its labels have at most {shown_resources(most)}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return ", ".join(names[:_MAX_SHOWN]) + more
