"""Where the sums of a simulation's groups are made, and the routes there, as switches come and go.

What a run's controller tells nodes by messages, nodes hear here at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from innet.lab.simulation.network import SimulatedNetwork
from innet.node.control.survivors import Survivors
from innet.node.rules import install_rules
from innet.plans import Plan


class SimulatedPlacements:
    """Installs the rules of plans on the nodes that are left, and moves them when those change.

    Attributes:
        survivors: the network as it is known to be.
    """

    def __init__(self, network: SimulatedNetwork) -> None:
        """``network`` is whole."""
        self.survivors = Survivors(network.topology)
        self._network = network
        self._made: dict[str, Plan] = {}
        self._placed: dict[str, Plan] = {}
        self._ruled: dict[str, set[str]] = {}

    def add(self, plans: Mapping[str, Plan]) -> dict[str, Plan]:
        """Place plans made for the whole network on what is left; where their sums are made."""
        for prefix, made in plans.items():
            self._made[prefix] = made
            self._placed[prefix] = self.survivors.place(made)
            self._ruled[prefix] = set()
            self._network.tables.add_plan(prefix, self._placed[prefix])
            for switch in self._network.topology.switches:
                self._install(switch, prefix)
        return {prefix: self._placed[prefix] for prefix in plans}

    def remove(self, prefix: str) -> None:
        """Nobody asks for sums under ``prefix`` any more."""
        self._network.tables.remove_plan(prefix)
        del self._made[prefix], self._placed[prefix]
        for switch in self._ruled.pop(prefix):
            if self._network.is_alive(switch):
                self._network.nodes[switch].remove_group(prefix)

    def restore(self, node: str) -> None:
        """A node has come back empty: give it the rules that are placed there."""
        for prefix in self._placed:
            self._install(node, prefix)

    def adapt(self, survivors: Survivors) -> dict[str, Plan]:
        """The network is known to be ``survivors``: the plans whose sums are made elsewhere now."""
        self.survivors = survivors
        tables = self._network.tables
        for node, prefix, face in tables.change_routes(survivors.lost, survivors.cut):
            if self._network.is_alive(node):
                self._network.nodes[node].remove_route(prefix, face)
        moved = {}
        for prefix, made in self._made.items():
            placed = survivors.place(made)
            if placed != self._placed[prefix]:
                moved[prefix] = placed
                self._move(prefix, placed)
        return moved

    def _install(self, node: str, prefix: str) -> None:
        rules = self._placed[prefix].primary_rules(node)
        if rules and self._network.is_alive(node):  # else as it comes back
            self._ruled[prefix].add(node)
            install_rules(self._network.nodes[node], prefix, rules)

    def _move(self, prefix: str, placed: Plan) -> None:
        before, self._placed[prefix] = self._placed[prefix], placed
        told = self._network.tables.change_plan(prefix, placed)
        # Switches first: hosts ask at once where they hear that sums are made.
        for node in (*self._network.topology.switches, *self._network.topology.hosts):
            if not self._network.is_alive(node):
                continue
            here = placed.primary_rules(node)
            made = {rule.interval for rule in here}
            known = told.get(node, set()) | {rule.interval for rule in before.primary_rules(node)}
            changed = [rule for rule in here if rule not in before.primary_rules(node)]
            changed += [placed.fallback(node, interval) for interval in sorted(known - made)]
            install_rules(self._network.nodes[node], prefix, changed)
            if changed and node in self._network.topology.switches:
                self._ruled[prefix].add(node)
