"""What all generators share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Final

from pydantic import Field

from innet.topology.blueprint import Blueprint, PartDefaults
from innet.topology.model import Topology
from innet.topology.settings import LinkSettings
from innet.topology.specification import Specification

MAX_COUNT: Final = 10_000


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
        """Build the network.

        Raises:
            TopologyError: it would be too large, or a setting is out of range.
        """
        blueprint = Blueprint()
        self.draw_on(blueprint)
        given = defaults or PartDefaults()
        return blueprint.topology(name, replace(given, core_link=self.core.for_model()))

    @classmethod
    def numbers(cls) -> tuple[str, ...]:
        """Names of the numbers that describe the network, in the order of an expression."""
        return tuple(name for name in cls.model_fields if name not in ("kind", "core"))
