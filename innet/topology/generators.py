"""Regular networks from a few numbers.

A generator is at once the ``generate:`` section of a topology file and the meaning of an expression
such as ``leaf-spine:4x2x4``.
"""

from __future__ import annotations

import math
import random
import re
from abc import abstractmethod
from dataclasses import replace
from itertools import combinations
from typing import Annotated, Final, Literal, get_args

from pydantic import Field, ValidationError, model_validator

from innet.errors import TopologyError
from innet.suggestions import did_you_mean
from innet.topology.blueprint import Blueprint, PartDefaults, fibre_delay_s
from innet.topology.model import Topology
from innet.topology.settings import LinkSettings, Subnet
from innet.topology.specification import Specification, optional
from innet.validation_messages import first_message

__all__ = ["Generator", "GeneratorBase", "expression_forms", "from_expression", "is_expression"]

MAX_COUNT: Final = 10_000
_UNNUMBERED: Final = ("kind", "core", "subnets")
"""Fields of generators that expressions do not have."""


class GeneratorBase(Specification):
    """A family of networks. Fields are its numbers, in the order of an expression.

    Subclasses add ``kind`` and their numbers, and say in :meth:`draw_on` what they consist of.
    Hosts are called ``h0``, ``h1``, … so that each subtree holds consecutive ranks.
    """

    core: LinkSettings = Field(
        default=LinkSettings(), description="settings of the links between switches"
    )

    @abstractmethod
    def draw_on(self, blueprint: Blueprint) -> None:
        """Add the nodes and links of this network."""

    def topology(self, name: str, defaults: PartDefaults | None = None) -> Topology:
        """Build the network."""
        blueprint = Blueprint()
        self.draw_on(blueprint)
        given = defaults or PartDefaults()
        return blueprint.topology(name, replace(given, core_link=self.core.for_model()))

    @classmethod
    def numbers(cls) -> tuple[str, ...]:
        """Names of the numbers that describe the network, in the order of an expression."""
        return tuple(name for name in cls.model_fields if name not in _UNNUMBERED)


class Star(GeneratorBase):
    """``star:8`` is eight hosts ``h0`` to ``h7`` on the switch ``s0``."""

    kind: Literal["star"]
    hosts: int = Field(ge=1, le=MAX_COUNT, description="number of hosts")

    def draw_on(self, blueprint: Blueprint) -> None:
        """Add the switch and its hosts."""
        blueprint.add_switch("s0")
        for rank in range(self.hosts):
            blueprint.add_host(f"h{rank}")
            blueprint.connect(f"h{rank}", "s0")


class LeafSpine(GeneratorBase):
    """``leaf-spine:4x2x4`` is four leaves, two spines, and four hosts on each leaf.

    Every leaf has a link to every spine.
    """

    kind: Literal["leaf-spine"]
    leaves: int = Field(ge=1, le=MAX_COUNT, description="number of leaf switches")
    spines: int = Field(ge=1, le=MAX_COUNT, description="number of spine switches")
    hosts_per_leaf: int = Field(ge=1, le=MAX_COUNT, description="number of hosts on each leaf")

    def draw_on(self, blueprint: Blueprint) -> None:
        """Add spines, then each leaf with its hosts and uplinks."""
        for spine in range(self.spines):
            blueprint.add_switch(f"spine{spine}")
        for leaf in range(self.leaves):
            blueprint.add_switch(f"leaf{leaf}")
            for position in range(self.hosts_per_leaf):
                host = f"h{leaf * self.hosts_per_leaf + position}"
                blueprint.add_host(host)
                blueprint.connect(host, f"leaf{leaf}")
            for spine in range(self.spines):
                blueprint.connect(f"leaf{leaf}", f"spine{spine}")


class FatTree(GeneratorBase):
    """``fat-tree:4`` has k = 4 ports on every switch: 4 pods and k³/4 = 16 hosts.

    A pod has k/2 edge switches with k/2 hosts each, and k/2 aggregation switches; aggregation
    switch ``i`` of every pod is linked to the core switches ``i·k/2`` to ``(i+1)·k/2 - 1``.

    After M. Al-Fares, A. Loukissas, A. Vahdat: "A Scalable, Commodity Data Center Network
    Architecture", SIGCOMM 2008, section 3.
    """

    kind: Literal["fat-tree"]
    k: int = Field(ge=2, le=64, multiple_of=2, description="ports of each switch, an even number")

    def draw_on(self, blueprint: Blueprint) -> None:
        """Add the core, then pod after pod."""
        for core in range((self.k // 2) ** 2):
            blueprint.add_switch(f"core{core}")
        for pod in range(self.k):
            self._draw_pod(blueprint, pod)

    def _draw_pod(self, blueprint: Blueprint, pod: int) -> None:
        half = self.k // 2
        first = pod * half
        for aggregation in range(half):
            blueprint.add_switch(f"agg{first + aggregation}")
            for core in range(half):
                blueprint.connect(f"agg{first + aggregation}", f"core{aggregation * half + core}")
        for edge in range(first, first + half):
            blueprint.add_switch(f"edge{edge}")
            for host in range(edge * half, (edge + 1) * half):
                blueprint.add_host(f"h{host}")
                blueprint.connect(f"h{host}", f"edge{edge}")
            for aggregation in range(half):
                blueprint.connect(f"edge{edge}", f"agg{first + aggregation}")


class Dumbbell(GeneratorBase):
    """``dumbbell:4`` is four hosts on ``s0``, four on ``s1``, and the link ``s0`` to ``s1``."""

    kind: Literal["dumbbell"]
    hosts_per_side: int = Field(ge=1, le=MAX_COUNT, description="number of hosts on each side")

    def draw_on(self, blueprint: Blueprint) -> None:
        """Add both sides, then the link that they share."""
        for side in range(2):
            blueprint.add_switch(f"s{side}")
            for host in range(side * self.hosts_per_side, (side + 1) * self.hosts_per_side):
                blueprint.add_host(f"h{host}")
                blueprint.connect(f"h{host}", f"s{side}")
        blueprint.connect("s0", "s1")


class Rails(GeneratorBase):
    """``rails:8x2`` is eight hosts with two links each: ``eth0`` to ``r0``, ``eth1`` to ``r1``.

    In cluster mode, each rail may have a subnet of its own.
    """

    kind: Literal["rails"]
    hosts: int = Field(ge=1, le=MAX_COUNT, description="number of hosts")
    rails: int = Field(ge=1, le=64, description="number of switches, and of links of each host")
    subnets: list[Subnet] = optional("subnet of each rail's links in cluster mode")

    @model_validator(mode="after")
    def _one_subnet_for_each_rail(self) -> Rails:
        if len(self.subnets or ()) not in (0, self.rails):
            raise ValueError(
                f"expected a subnet for each of {self.rails} rails, found {len(self.subnets)}"
            )
        return self

    def draw_on(self, blueprint: Blueprint) -> None:
        """Add the switch of each rail, then the hosts."""
        rails = [f"r{rail}" for rail in range(self.rails)]
        for rail in rails:
            blueprint.add_switch(rail)
        for host in (f"h{rank}" for rank in range(self.hosts)):
            blueprint.add_host(host)
            for number, rail in enumerate(rails):
                settings = {"subnet": self.subnets[number]} if self.subnets else {}
                blueprint.connect(host, rail, **settings)


MAX_SITES: Final = 300
MAP_WIDTH_KM: Final = 4000.0
MAP_HEIGHT_KM: Final = 2000.0


class Wan(GeneratorBase):
    """``wan:6`` is six sites on a map of 4000 km by 2000 km, with a host each; same seed, same map.

    Sites are joined by a minimum spanning tree and, shortest first, by the links that are still
    needed for every site to have two neighbours. The delays are those of light in fibre.
    """

    kind: Literal["wan"]
    sites: int = Field(ge=1, le=MAX_SITES, description="number of sites, a switch each")
    hosts_per_site: int = Field(default=1, ge=1, le=100, description="number of hosts at each site")
    seed: int = Field(default=0, ge=0, le=2**32 - 1, description="seed of the map")

    def draw_on(self, blueprint: Blueprint) -> None:
        """Add the sites with their hosts, then the cables."""
        for site in range(self.sites):
            blueprint.add_switch(f"site{site}")
            for host in range(site * self.hosts_per_site, (site + 1) * self.hosts_per_site):
                blueprint.add_host(f"h{host}")
                blueprint.connect(f"h{host}", f"site{site}")
        for a, b, distance_km in self._cables():
            blueprint.connect(f"site{a}", f"site{b}", delay_s=fibre_delay_s(distance_km))

    def _cables(self) -> list[tuple[int, int, float]]:
        places = self._places()
        pairs = combinations(range(self.sites), 2)
        by_length = sorted((math.dist(places[a], places[b]), a, b) for a, b in pairs)
        import networkx as nx  # imported only where a graph is needed

        distances: nx.Graph[int] = nx.Graph()
        distances.add_nodes_from(range(self.sites))
        distances.add_weighted_edges_from((a, b, km) for km, a, b in by_length)
        cables: nx.Graph[int] = nx.minimum_spanning_tree(distances)
        for km, a, b in by_length:
            if min(cables.degree[a], cables.degree[b]) < 2:
                cables.add_edge(a, b, weight=km)
        return sorted((a, b, km) for km, a, b in by_length if cables.has_edge(a, b))

    def _places(self) -> list[tuple[float, float]]:
        rng = random.Random(self.seed)
        return [
            (rng.uniform(0, MAP_WIDTH_KM), rng.uniform(0, MAP_HEIGHT_KM)) for _ in range(self.sites)
        ]


Generator = Annotated[
    Star | LeafSpine | FatTree | Dumbbell | Rails | Wan, Field(discriminator="kind")
]

_BY_KIND: Final[dict[str, type[GeneratorBase]]] = {
    get_args(generator.model_fields["kind"].annotation)[0]: generator
    for generator in get_args(get_args(Generator)[0])
}


def is_expression(text: str) -> bool:
    """Whether a text has the form of a generator expression, known or not: ``word:number…``."""
    return re.fullmatch(r"[A-Za-z][A-Za-z-]*:[0-9x]*", text) is not None


def expression_forms() -> tuple[str, ...]:
    """Every expression that is understood: ``("star:HOSTS", "leaf-spine:LEAVESxSPINESx…", …)``."""
    return tuple(_form(kind) for kind in _BY_KIND)


def from_expression(text: str) -> Topology:
    """Build a network from an expression such as ``leaf-spine:4x2x4``.

    The numbers stand in the order of :meth:`GeneratorBase.numbers`; those with a default may be
    left out at the end. The topology is called after the expression, ``leaf-spine-4x2x4``.
    """
    kind, _, numbers_text = text.partition(":")
    generator = _BY_KIND.get(kind)
    if generator is None:
        hint = did_you_mean(kind, _BY_KIND) or f"; expected one of {', '.join(_BY_KIND)}"
        raise TopologyError(f"unknown generator {kind!r}{hint}")
    texts = numbers_text.split("x")
    names = generator.numbers()
    if len(texts) > len(names) or not all(re.fullmatch("[0-9]{1,10}", text) for text in texts):
        raise TopologyError(f"expected {_form(kind)}, found {text!r}")
    keys = (name.replace("_", "-") for name in names)
    values = dict(zip(keys, map(int, texts), strict=False))
    try:
        built = generator.model_validate({"kind": kind, **values})
    except ValidationError as error:
        raise TopologyError(f"{text}: {first_message(error)}; expected {_form(kind)}") from None
    return built.topology(f"{kind}-{numbers_text}"[:32])


def _form(kind: str) -> str:
    """``wan:SITES[xHOSTS-PER-SITE][xSEED]``."""
    form = kind + ":"
    for position, name in enumerate(_BY_KIND[kind].numbers()):
        number = ("x" if position else "") + name.replace("_", "-").upper()
        required = _BY_KIND[kind].model_fields[name].is_required()
        form += number if required else f"[{number}]"
    return form
