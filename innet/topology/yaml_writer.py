"""Writes a topology as a file that reads back as the same topology."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from io import StringIO
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from innet.quantities import format_size
from innet.topology.event_document import written_event
from innet.topology.model import Host, Interface, Link, Node, Topology
from innet.topology.settings import written_link_settings


def dump_yaml(topology: Topology) -> str:
    """The text of a topology file; link settings that most links share go into ``defaults``."""
    shared = _most_common(topology.links)
    section = CommentedMap()
    if written := {key: value for key, value in shared.items() if value != _UNWRITTEN[key]}:
        section["defaults"] = {"link": _flow_map(written)}
    section["nodes"] = CommentedMap(
        (name, _flow_map(_node_settings(node))) for name, node in topology.nodes.items()
    )
    section["links"] = [_link_entry(link, shared) for link in topology.links]
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
    else:
        settings["slots"] = node.slots
        if _differs(node, "cache_policy"):
            settings["cache-policy"] = node.cache_policy
    if _differs(node, "cache_bytes"):
        settings["cache"] = format_size(node.cache_bytes)
    return settings


def _link_settings(link: Link) -> dict[str, Any]:
    """Every setting of a link as it would be written; ``mark`` only when it is not the default."""
    fields = dict(link)
    for end in ("a", "b"):
        del fields[end]
    if link.mark_bytes is None:
        del fields["mark_bytes"]
    return written_link_settings(fields)


def _most_common(links: Sequence[Link]) -> dict[str, Any]:
    """For each setting the value that most links have. ``mark`` is left out: it has no "unset"."""
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


def _flow_map(items: dict[str, Any]) -> CommentedMap:
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
"""What a link has for which nothing is written."""
