"""A network under construction: names and wires first, settings and checks at the end."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from innet.errors import TopologyError
from innet.topology.model import Topology
from innet.topology.parts import Host, Interface, Link, Node, Switch

MAX_NODES: Final = 20_000
MAX_LINKS: Final = 200_000

PartSettings = Mapping[str, Any]
"""Fields of a :class:`Host`, :class:`Switch` or :class:`Link` by their names."""


@dataclass(frozen=True)
class PartDefaults:
    """Settings of every host, switch and link that does not bring its own."""

    host: PartSettings = field(default_factory=dict)
    switch: PartSettings = field(default_factory=dict)
    link: PartSettings = field(default_factory=dict)
    core_link: PartSettings = field(default_factory=dict)
    """Settings of links between two switches; they win over all others."""


class Blueprint:
    """Collects nodes and wires, numbers the ports (``eth0``, ``eth1``, …), and makes a topology.

    Example:
        >>> plan = Blueprint()
        >>> plan.add_switch("s0")
        >>> plan.add_host("h0")
        >>> plan.connect("h0", "s0", rate_bps=1e9)
        >>> plan.topology("pair", PartDefaults()).hosts
        ('h0',)
    """

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[type[Host] | type[Switch], PartSettings]] = {}
        self._wires: list[tuple[str, str, PartSettings]] = []

    def add_host(self, name: str, **settings: Any) -> None:
        """Add a host with settings of its own."""
        self._add(name, Host, settings)

    def add_switch(self, name: str, **settings: Any) -> None:
        """Add a switch with settings of its own."""
        self._add(name, Switch, settings)

    def connect(self, a: str, b: str, **settings: Any) -> None:
        """Join two nodes that were added before."""
        if len(self._wires) >= MAX_LINKS:
            raise TopologyError(f"more than {MAX_LINKS} links; expected a smaller network")
        self._wires.append((a, b, settings))

    def topology(self, name: str, defaults: PartDefaults) -> Topology:
        """Apply the defaults and check the whole."""
        return Topology(name=name, nodes=self._built_nodes(defaults), links=self._built(defaults))

    def _add(self, name: str, part: type[Host] | type[Switch], settings: PartSettings) -> None:
        if len(self._nodes) >= MAX_NODES:
            raise TopologyError(f"more than {MAX_NODES} nodes; expected a smaller network")
        if name in self._nodes:
            raise TopologyError(f"two nodes are called {name!r}; expected a name for each")
        self._nodes[name] = (part, settings)

    def _built_nodes(self, defaults: PartDefaults) -> dict[str, Node]:
        return {
            name: part(
                name=name, **{**(defaults.host if part is Host else defaults.switch), **settings}
            )
            for name, (part, settings) in self._nodes.items()
        }

    def _built(self, defaults: PartDefaults) -> tuple[Link, ...]:
        ports: Counter[str] = Counter()

        def next_port(node: str) -> Interface:
            ports[node] += 1
            return Interface(node=node, port=f"eth{ports[node] - 1}")

        return tuple(
            Link(a=next_port(a), b=next_port(b), **self._link_settings(a, b, settings, defaults))
            for a, b, settings in self._wires
        )

    def _link_settings(
        self, a: str, b: str, own: PartSettings, defaults: PartDefaults
    ) -> dict[str, Any]:
        is_core = self._nodes[a][0] is Switch and self._nodes[b][0] is Switch
        return {**defaults.link, **own, **(defaults.core_link if is_core else {})}


SPEED_IN_FIBRE_KM_PER_S: Final = 204_000.0
"""Speed of light in vacuum divided by the group index of silica fibre, about 1.468."""

EARTH_RADIUS_KM: Final = 6371.0


def fibre_delay_s(distance_km: float) -> float:
    """One-way propagation delay over a fibre of that length, to the microsecond."""
    return round(distance_km / SPEED_IN_FIBRE_KM_PER_S, 6)


def great_circle_km(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Distance between two (latitude, longitude) pairs in degrees, by the haversine formula."""
    (latitude_a, longitude_a), (latitude_b, longitude_b) = (
        (math.radians(latitude), math.radians(longitude)) for latitude, longitude in (a, b)
    )
    haversine = (
        math.sin((latitude_b - latitude_a) / 2) ** 2
        + math.cos(latitude_a)
        * math.cos(latitude_b)
        * math.sin((longitude_b - longitude_a) / 2) ** 2
    )
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(min(1.0, haversine)))
