"""Reads a topology file."""

from __future__ import annotations

from pathlib import Path

from innet.errors import TopologyError
from innet.topology.blueprint import PartDefaults
from innet.topology.document import Defaults, TopologyDocument, TopologySection
from innet.topology.event_document import event_of
from innet.topology.events import event_problem
from innet.topology.located_yaml import LocatedDocument, Step, parse_located
from innet.topology.model import Host, Link, Node, Switch, Topology
from innet.topology.specification import validated
from innet.topology.structure import Problem, structural_problems

_SECTION = "topology"


def parse_yaml(text: str, path: Path | None = None) -> Topology:
    """Make a topology from the text of a file.

    Args:
        text: YAML, as described by :func:`innet.topology.document.json_schema`.
        path: named in errors.

    Raises:
        TopologyError: anything that is wrong, with its line.
    """
    return topology_from_document(parse_located(text, path))


def topology_from_document(document: LocatedDocument) -> Topology:
    """Make a topology from parsed YAML; see :func:`parse_yaml`."""
    specification = validated(TopologyDocument, document)
    section = specification.topology
    make = _generated if "generate" in section.model_fields_set else _written_out
    topology = make(specification.name, section, document)
    events = tuple(event_of(event) for event in specification.events)
    for number, event in enumerate(events):
        problem = event_problem(event, topology)
        if problem is not None:
            raise document.error(problem, "events", number)
    return topology.model_copy(update={"events": events})


def _generated(name: str, section: TopologySection, document: LocatedDocument) -> Topology:
    try:
        return section.generate.topology(name, _part_defaults(section.defaults))
    except TopologyError as error:
        raise document.error(str(error), _SECTION, "generate") from None


def _written_out(name: str, section: TopologySection, document: LocatedDocument) -> Topology:
    defaults = _part_defaults(section.defaults)
    nodes: dict[str, Node] = {}
    for node_name, node in section.nodes.items():
        base = defaults.host if node.kind == "host" else defaults.switch
        part = Host if node.kind == "host" else Switch
        nodes[node_name] = part(name=node_name, **{**base, **node.for_model()})
    links = tuple(
        _link(index, section, defaults, document) for index in range(len(section.links or ()))
    )
    for problem in structural_problems(nodes, links):
        raise document.error(problem.message, *_steps_to(problem))
    return Topology(name=name, nodes=nodes, links=links)


def _link(
    index: int, section: TopologySection, defaults: PartDefaults, document: LocatedDocument
) -> Link:
    settings = {**defaults.link, **section.links[index].for_model()}
    a, b = settings.pop("endpoints")
    try:
        return Link(a=a, b=b, **settings)
    except TopologyError as error:
        raise document.error(str(error), _SECTION, "links", index) from None


def _part_defaults(defaults: Defaults) -> PartDefaults:
    return PartDefaults(
        host=defaults.host.for_model(),
        switch=defaults.switch.for_model(),
        link=defaults.link.for_model(),
    )


def _steps_to(problem: Problem) -> tuple[Step, ...]:
    if problem.link is not None:
        return (_SECTION, "links", problem.link)
    if problem.node is not None:
        return (_SECTION, "nodes", problem.node)
    return (_SECTION, "nodes")
