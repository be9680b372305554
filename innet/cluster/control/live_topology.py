"""The part of a network that works: its switches may die and return, its links may be cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from innet.node.routing import NextHops, next_hops
from innet.plans import Plan, place_without
from innet.topology import Topology
from innet.topology.routes import Ends, Routes

Part: TypeAlias = str | Ends
"""A switch by its name, or a link by its ends."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a switch or a link is gone, and whether to wait for its return."""

    why: str
    returns: bool


def silence_of(part: Part, time_s: float) -> str:
    """Why a part counts as lost that has been silent for ``time_s``."""
    if isinstance(part, str):
        return f"{part} has not answered for {time_s:g} s"
    return f"{'--'.join(part)} has carried nothing for {time_s:g} s"


class LiveTopology:
    """The live nodes, the routes between them, and where they make sums.

    Immutable: :meth:`without` and :meth:`with_again` give the next state.
    """

    def __init__(self, topology: Topology, lost: Mapping[str, Loss] | None = None) -> None:
        """The network without the switches that are ``lost``."""
        self._topology = topology
        self._lost: dict[Part, Loss] = {}
        self._lost.update(lost or {})

    @property
    def lost(self) -> tuple[str, ...]:
        """The lost switches."""
        return tuple(part for part in self._lost if isinstance(part, str))

    @property
    def cut(self) -> tuple[Ends, ...]:
        """The lost links."""
        return tuple(part for part in self._lost if not isinstance(part, str))

    @property
    def switches(self) -> tuple[str, ...]:
        """The live switches."""
        return tuple(s for s in self._topology.switches if s not in self._lost)

    def without(self, part: Part, loss: Loss) -> LiveTopology:
        """The network without ``part`` as well."""
        return self._with_lost({**self._lost, part: loss})

    def with_again(self, part: Part) -> LiveTopology:
        """The network with ``part`` again."""
        return self._with_lost({lost: why for lost, why in self._lost.items() if lost != part})

    @cached_property
    def next_hops(self) -> NextHops:
        """At every live node, the face towards each node that it can reach."""
        return next_hops(self._topology, self.lost, self.cut)

    def distance(self, node: str, towards: str) -> int:
        """As :meth:`innet.topology.routes.Routes.distance`, over the live network."""
        return self._routes.distance(node, towards)

    @cached_property
    def _routes(self) -> Routes:
        return Routes(self._topology, self.lost, self.cut)

    def place(self, plan: Plan) -> Plan:
        """Where the sums of ``plan``, made for the whole network, are made now."""
        return place_without(plan, self._topology, self.lost, self.cut)

    def separation(self, nodes: Sequence[str]) -> str | None:
        """Why some of ``nodes`` can never reach the others; ``None`` when they can.

        Also ``None`` while a lost switch or link between them is expected back.
        """
        given_up = self._with_lost(
            {part: why for part, why in self._lost.items() if not why.returns}
        )
        if not given_up._lost:
            return None
        routes = Routes(self._topology, given_up.lost, given_up.cut)
        apart = [node for node in nodes[1:] if not routes.reaches(node, nodes[0])]
        if not apart:
            return None
        whys = "; ".join(
            f"{'switch' if isinstance(part, str) else 'the link'} {loss.why}"
            for part, loss in given_up._lost.items()
        )
        return f"{whys}; no other path leads from {nodes[0]} to {', '.join(apart)}"

    def _with_lost(self, lost: dict[Part, Loss]) -> LiveTopology:
        live = LiveTopology(self._topology)
        live._lost = lost
        return live
