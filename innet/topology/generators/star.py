"""Star: every host on one switch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from innet.topology.blueprint import Blueprint
from innet.topology.generators.base import MAX_COUNT, GeneratorBase


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
