"""The load of others on a network: on each link, node and switch; and which ranks are late.

The estimates of :class:`~innet.plans.cost.CostModel` count on what is left. Where others fill a
link or a processor, a plan still gets a little: :data:`LEAST_SHARE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from innet.topology import Topology

LEAST_SHARE = 0.05
"""The part of a full link or processor that a plan counts on."""


class Load(BaseModel):
    """The load of others on a network. Immutable, and equal on all ranks of a group."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    link_bps: Mapping[str, Mapping[str, float]] = Field(
        default={}, description="bits a second that others send, by sending and receiving node"
    )
    processor: Mapping[str, float] = Field(
        default={}, description="by node, the part of one core that others keep busy"
    )
    free_slots: Mapping[str, int] = Field(
        default={}, description="by switch, the slots for sums that others leave"
    )
    late: Mapping[str, float] = Field(
        default={}, description="by host, the part of the time in which other ranks wait for it"
    )

    @property
    def is_empty(self) -> bool:
        """Whether nobody else uses the network, as far as it is known."""
        return self == NO_LOAD

    def used_bps(self, source: str, to: str) -> float:
        """Bits a second that others send from ``source`` to its neighbour ``to``."""
        return self.link_bps.get(source, {}).get(to, 0.0)

    def rate_bps(self, topology: Topology, source: str, to: str) -> float | None:
        """The rate that others leave from ``source`` to ``to``; ``None``: the link has no rate."""
        rate_bps = topology.link_between(source, to).rate_bps
        if rate_bps is None:
            return None
        return max(rate_bps - self.used_bps(source, to), rate_bps * LEAST_SHARE)

    def link_share(self, topology: Topology, source: str, to: str) -> float:
        """The part of the link that others use; 0 where it has no rate."""
        rate_bps = topology.link_between(source, to).rate_bps
        return 0.0 if rate_bps is None else min(self.used_bps(source, to) / rate_bps, 1.0)

    def processor_left(self, node: str) -> float:
        """The part of a core that others leave to ``node``."""
        return max(1.0 - self.processor.get(node, 0.0), LEAST_SHARE)

    def has_slots(self, switch: str) -> bool:
        """Whether others leave slots of ``switch``, as far as it is known."""
        return self.free_slots.get(switch, 1) > 0


NO_LOAD = Load()
"""Nobody else uses the network."""
