"""Reads topology files and writes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from innet.errors import TopologyError
from innet.quantities import format_rate, format_size
from innet.topology.blueprint import PartDefaults
from innet.topology.document import (
    Defaults,
    TopologyDocument,
    TopologySection,
    event_of,
    written_event,
)
from innet.topology.events import event_problem
from innet.topology.from_ray import FromRay, ListMachines
from innet.topology.located_yaml import LocatedDocument, PathStep, parse_located
from innet.topology.model import Topology
from innet.topology.parts import Host, Interface, Link, Node, Switch
from innet.topology.settings import written_link_settings
from innet.topology.specification import validated
from innet.topology.structure import Problem, structural_problems
from innet.topology.workers import collapsed

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


def topology_from_document(
    document: LocatedDocument, list_machines: ListMachines | None = None
) -> Topology:
    """Make a topology from parsed YAML; see :func:`parse_yaml`.

    ``list_machines`` asks the cluster on which the network is launched, if there is one.
    """
    specification = validated(TopologyDocument, document)
    section = specification.topology
    if "generate" in section.model_fields_set:
        topology = _generated(specification.name, section, document, list_machines)
    else:
        topology = _written_out(specification.name, section, document)
    events = tuple(event_of(event) for event in specification.events)
    for number, event in enumerate(events):
        problem = event_problem(event, topology)
        if problem is not None:
            raise document.error(problem, "events", number)
    return topology.model_copy(update={"events": events})


def _generated(
    name: str,
    section: TopologySection,
    document: LocatedDocument,
    list_machines: ListMachines | None,
) -> Topology:
    defaults = _part_defaults(section.defaults)
    try:
        if isinstance(section.generate, FromRay):
            return section.generate.topology(name, defaults, list_machines)
        return section.generate.topology(name, defaults)
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


def _steps_to(problem: Problem) -> tuple[PathStep, ...]:
    if problem.link is not None:
        return (_SECTION, "links", problem.link)
    if problem.node is not None:
        return (_SECTION, "nodes", problem.node)
    return (_SECTION, "nodes")


def dump_yaml(topology: Topology) -> str:
    """The text of a topology file; link settings that most links share go into ``defaults``."""
    nodes, links = collapsed(topology.nodes, topology.links, topology.machines)
    shared = _most_common(links)
    section = CommentedMap()
    if written := {key: value for key, value in shared.items() if value != _UNWRITTEN[key]}:
        section["defaults"] = {"link": _flow_map(written)}
    section["nodes"] = CommentedMap(
        (name, _flow_map(_node_settings(node))) for name, node in nodes.items()
    )
    section["links"] = [_link_entry(link, shared) for link in links]
    document = CommentedMap(name=topology.name, topology=section)
    if topology.events:
        document["events"] = [_flow_map(written_event(event)) for event in topology.events]
    out = StringIO()
    writer = YAML()
    writer.width = 100
    writer.indent(mapping=2, sequence=4, offset=2)
    writer.dump(document, out)
    return out.getvalue()


def _node_settings(node: Node) -> dict[str, Any]:
    settings: dict[str, Any] = {"kind": node.kind}
    if isinstance(node, Host):
        if node.rank is not None:
            settings["rank"] = node.rank
        if _differs(node, "workers"):
            settings["workers"] = node.workers
        if node.memory_rate_bps is not None:
            settings["memory-rate"] = format_rate(node.memory_rate_bps)
    else:
        settings["slots"] = node.slots
        if _differs(node, "cache_policy"):
            settings["cache-policy"] = node.cache_policy
    if _differs(node, "cache_bytes"):
        settings["cache"] = format_size(node.cache_bytes)
    if isinstance(node.machine, str):
        settings["machine"] = node.machine
    elif node.machine is not None:
        settings["machine"] = _flow_map(node.machine)
    return settings


def _link_settings(link: Link) -> dict[str, Any]:
    """Every setting of a link as it would be written; those without a default only if set."""
    fields = dict(link)
    for name in ("a", "b", "in_memory"):
        del fields[name]
    for name in ("mark_bytes", "subnet"):
        if fields[name] is None:
            del fields[name]
    return written_link_settings(fields)


def _most_common(links: Sequence[Link]) -> dict[str, Any]:
    """The most common value of each link setting, without ``mark``, which cannot be unset."""
    return {
        key: Counter(_link_settings(link)[key] for link in links).most_common(1)[0][0]
        for key in _UNWRITTEN
        if links
    }


def _link_entry(link: Link, shared: dict[str, Any]) -> CommentedMap:
    own = {key: value for key, value in _link_settings(link).items() if shared.get(key) != value}
    return _flow_map({"endpoints": _flow_list([str(link.a), str(link.b)]), **own})


def _differs(node: Node, field: str) -> bool:
    return bool(getattr(node, field) != type(node).model_fields[field].default)


def _flow_map(items: Mapping[str, Any]) -> CommentedMap:
    mapping = CommentedMap(items)
    mapping.fa.set_flow_style()
    return mapping


def _flow_list(items: list[str]) -> CommentedSeq:
    sequence = CommentedSeq(items)
    sequence.fa.set_flow_style()
    return sequence


_UNWRITTEN: Final = _link_settings(
    Link(a=Interface(node="a", port="a"), b=Interface(node="b", port="b"))
)
"""The settings of a link for which nothing is written."""
