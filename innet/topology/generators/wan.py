"""WAN: sites scattered over a map and joined by short cables, no site at the end of just one.

The delays are those of light in fibre over the distances between the sites.
"""

from __future__ import annotations

import math
import random
from itertools import combinations
from typing import Final, Literal

from pydantic import Field

from innet.topology.blueprint import Blueprint
from innet.topology.fibre import fibre_delay_s
from innet.topology.generators.base import GeneratorBase

MAX_SITES: Final = 300
MAP_WIDTH_KM: Final = 4000.0
MAP_HEIGHT_KM: Final = 2000.0


class Wan(GeneratorBase):
    """``wan:6`` is six sites on a map of 4000 km by 2000 km, with a host each; same seed, same map.

    Sites are joined by a minimum spanning tree and, shortest first, by the links that are still
    needed for every site to have two neighbours.
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
