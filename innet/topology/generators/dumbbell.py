"""Dumbbell: two groups of hosts that share one link."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from innet.topology.blueprint import Blueprint
from innet.topology.generators.base import MAX_COUNT, GeneratorBase


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
