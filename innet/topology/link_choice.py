"""Links by name: ``h0--s0`` is one link, ``s0`` all links of that node."""

from __future__ import annotations

from collections.abc import Sequence

from innet.errors import TopologyError
from innet.suggestions import did_you_mean
from innet.topology.model import Topology

_JOINT = "--"
_MOST_LISTED = 16

DirectedLinks = tuple[tuple[str, str], ...]
"""Pairs of neighbours, both directions of each."""


def links_at(topology: Topology, places: Sequence[str]) -> DirectedLinks:
    """The links that ``places`` name."""
    found: dict[tuple[str, str], None] = {}
    for place in places:
        ends = tuple(end.strip() for end in place.split(_JOINT))
        links = [link.nodes for link in topology.links if set(ends) <= set(link.nodes)]
        if len(ends) > 2 or not links:
            hint = did_you_mean(place, topology.nodes) if len(ends) == 1 else ""
            raise TopologyError(
                f"{topology.name} has no node or link {place!r} whose packets could be captured"
                f"{hint}; its links are {_listed(topology)}"
            )
        found.update(dict.fromkeys(links))
    return tuple(found)


def _listed(topology: Topology) -> str:
    names = [_JOINT.join(link.nodes) for link in topology.links]
    more = len(names) - _MOST_LISTED
    shown = ", ".join(names[:_MOST_LISTED])
    return f"{shown} and {more} more (`innet topology show` lists them)" if more > 0 else shown
