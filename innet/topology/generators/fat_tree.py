"""Fat-tree: a three-level Clos network of identical k-port switches.

After M. Al-Fares, A. Loukissas, A. Vahdat: "A Scalable, Commodity Data Center Network
Architecture", SIGCOMM 2008, section 3.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from innet.topology.blueprint import Blueprint
from innet.topology.generators.base import GeneratorBase


class FatTree(GeneratorBase):
    """``fat-tree:4`` has k = 4 ports on every switch: 4 pods and k³/4 = 16 hosts.

    A pod has k/2 edge switches with k/2 hosts each, and k/2 aggregation switches; aggregation
    switch ``i`` of every pod is linked to the core switches ``i·k/2`` to ``(i+1)·k/2 - 1``.
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
