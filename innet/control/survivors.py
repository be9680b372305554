"""What is left of a network whose switches may die and come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from innet.emulation.routing import NextHops, next_hops
from innet.plans import Plan, place_without
from innet.topology import Topology
from innet.topology.routes import Routes


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a switch is gone, and whether somebody sees to its return."""

    why: str
    returns: bool


class Survivors:
    """The nodes that are left, the routes between them, and where they make sums.

    Immutable: :meth:`without` and :meth:`with_again` give the next state.
    """

    def __init__(self, topology: Topology, lost: dict[str, Loss] | None = None) -> None:
        self._topology = topology
        self._lost = dict(lost or {})

    @property
    def lost(self) -> tuple[str, ...]:
        """The switches that are gone."""
        return tuple(self._lost)

    @property
    def switches(self) -> tuple[str, ...]:
        """The switches that are left."""
        return tuple(s for s in self._topology.switches if s not in self._lost)

    def without(self, switch: str, loss: Loss) -> Survivors:
        """The network once ``switch`` is gone too."""
        return Survivors(self._topology, {**self._lost, switch: loss})

    def with_again(self, switch: str) -> Survivors:
        """The network once ``switch`` is back."""
        left = {name: loss for name, loss in self._lost.items() if name != switch}
        return Survivors(self._topology, left)

    @cached_property
    def next_hops(self) -> NextHops:
        """The face towards every node that can be reached, at every node that is left."""
        return next_hops(self._topology, self.lost)

    def place(self, plan: Plan) -> Plan:
        """Where the sums of ``plan``, made for the whole network, are made now."""
        return place_without(plan, self._topology, self.lost)

    def separation(self, nodes: Sequence[str]) -> str | None:
        """Why some of ``nodes`` cannot reach others and never will; ``None`` when they can.

        They may yet, too, as long as somebody sees to the return of a lost switch between them.
        """
        gone = [name for name, loss in self._lost.items() if not loss.returns]
        routes = Routes(self._topology, without=gone)
        apart = [node for node in nodes[1:] if gone and not routes.reaches(node, nodes[0])]
        if not apart:
            return None
        whys = "; ".join(f"switch {self._lost[name].why}" for name in gone)
        return f"{whys}; no other path leads from {nodes[0]} to {', '.join(apart)}"
