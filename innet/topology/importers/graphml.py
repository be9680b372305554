"""GraphML, in the dialect of the Internet Topology Zoo (http://www.topology-zoo.org).

Every node becomes a switch, called after its label, with one host behind it. Of an edge,
``LinkSpeedRaw`` (bit/s) becomes the rate; the delay is that of fibre between the ``Latitude`` and
``Longitude`` of its nodes. A property that the file does not have keeps the model's default:
such a link has no limit and no delay. Parallel edges become one link with the sum of their rates;
loops are dropped. Hosts are numbered in the order of the file.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import networkx as nx

from innet.errors import TopologyError
from innet.topology.blueprint import Blueprint, PartDefaults, fibre_delay_s, great_circle_km
from innet.topology.model import Topology
from innet.topology.names import sanitised_name
from innet.topology.parts import MAX_DELAY_S, MAX_RATE_BPS, MIN_RATE_BPS


def parse_graphml(text: str, path: Path) -> Topology:
    """Make a topology from GraphML text."""
    try:
        return _build(_parsed(text, path)).topology(sanitised_name(path.stem), PartDefaults())
    except TopologyError as error:
        raise error if error.path else TopologyError(str(error), path=path) from None


def _parsed(text: str, path: Path) -> nx.Graph[Any]:
    try:
        with warnings.catch_warnings(action="error"):  # such as a key that nothing declares
            graph: nx.Graph[Any] = nx.parse_graphml(text, force_multigraph=True)
    except ParseError as error:
        raise TopologyError(
            f"not valid XML: {error.msg}", path=path, line=error.position[0]
        ) from None
    except (
        nx.NetworkXError,
        KeyError,
        ValueError,
        TypeError,
        AttributeError,
        UserWarning,
        StopIteration,
    ) as error:
        raise TopologyError(f"not valid GraphML: {error}", path=path) from None
    return graph


def _build(graph: nx.Graph[Any]) -> Blueprint:
    blueprint = Blueprint()
    names = _switch_names(graph)
    for rank, switch in enumerate(names.values()):
        blueprint.add_switch(switch)
        blueprint.add_host(f"h{rank}-{switch}"[:32].rstrip("._-"))
        blueprint.connect(f"h{rank}-{switch}"[:32].rstrip("._-"), switch)
    for (a, b), rate_bps in _merged_rates(graph).items():
        delay_s = _delay_s(graph.nodes[a], graph.nodes[b])
        blueprint.connect(names[a], names[b], rate_bps=rate_bps, delay_s=delay_s)
    return blueprint


def _switch_names(graph: nx.Graph[Any]) -> dict[Any, str]:
    """A unique legal name for every node, from its label or else its id."""
    names: dict[Any, str] = {}
    taken: set[str] = set()
    for node, attributes in graph.nodes(data=True):
        base = name = sanitised_name(str(attributes.get("label", node)))
        suffix = 2
        while name in taken:
            name = f"{base[:27]}-{suffix}"
            suffix += 1
        taken.add(name)
        names[node] = name
    return names


def _merged_rates(graph: nx.Graph[Any]) -> dict[tuple[Any, Any], float | None]:
    """Rate in bit/s by pair of nodes; ``None`` if an edge of the pair has no known speed."""
    rates: dict[tuple[Any, Any], float | None] = {}
    for a, b, attributes in graph.edges(data=True):
        if a == b:
            continue
        pair = (b, a) if (b, a) in rates else (a, b)
        speed_bps = _number(attributes, "LinkSpeedRaw", MIN_RATE_BPS, MAX_RATE_BPS)
        total_bps = rates.get(pair, 0.0)
        if speed_bps is None or total_bps is None:
            rates[pair] = None
        else:
            rates[pair] = min(total_bps + speed_bps, MAX_RATE_BPS)
    return rates


def _delay_s(a: Mapping[str, Any], b: Mapping[str, Any]) -> float:
    place_a, place_b = _place(a), _place(b)
    if place_a is None or place_b is None:
        return 0.0
    return min(fibre_delay_s(great_circle_km(place_a, place_b)), MAX_DELAY_S)


def _place(attributes: Mapping[str, Any]) -> tuple[float, float] | None:
    latitude = _number(attributes, "Latitude", -90, 90)
    longitude = _number(attributes, "Longitude", -180, 180)
    return None if latitude is None or longitude is None else (latitude, longitude)


def _number(attributes: Mapping[str, Any], key: str, low: float, high: float) -> float | None:
    value = attributes.get(key)
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not low <= number <= high:
        raise TopologyError(f"{key}: expected a number from {low:g} to {high:g}, found {value!r}")
    return number
