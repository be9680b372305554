"""Topologies: what a network consists of, and the files that describe one.

* :func:`load_topology` finds and reads a file, a shipped name or a generator expression;
* :class:`Topology` is the result, immutable and valid;
* :func:`dump_yaml` writes it back, :func:`json_schema` describes the file;
* :mod:`innet.topology.show` prints and draws it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from innet.imports import lazy_names

if TYPE_CHECKING:
    from innet.topology.document import json_schema
    from innet.topology.loading import load_topology, shipped_topologies
    from innet.topology.model import Overrides, Topology
    from innet.topology.parts import Host, Interface, Link, Switch
    from innet.topology.yaml_text import dump_yaml, parse_yaml

__all__ = [
    "Host",
    "Interface",
    "Link",
    "Overrides",
    "Switch",
    "Topology",
    "dump_yaml",
    "json_schema",
    "load_topology",
    "parse_yaml",
    "shipped_topologies",
]

__getattr__ = lazy_names(
    __name__,
    {
        "json_schema": "document",
        "load_topology": "loading",
        "Host": "parts",
        "Interface": "parts",
        "Link": "parts",
        "Overrides": "model",
        "Switch": "parts",
        "Topology": "model",
        "shipped_topologies": "loading",
        "parse_yaml": "yaml_text",
        "dump_yaml": "yaml_text",
    },
)
