"""Leaf-spine: a two-level Clos network."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from innet.topology.blueprint import Blueprint
from innet.topology.generators.base import MAX_COUNT, GeneratorBase


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
