"""Where the sums of a plan are made: its rules, installed on the switches and taken away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from innet.control.messenger import Messenger
from innet.control.protocol import RuleMessage
from innet.errors import ControlError
from innet.plans import Plan
from innet.topology import Topology


class Placements:
    """Installs the rules of plans on the switches of a network, and takes them away."""

    def __init__(self, topology: Topology, messenger: Messenger) -> None:
        self._topology = topology
        self._messenger = messenger
        self._lost: dict[str, str] = {}

    def lose_switch(self, switch: str, why: str) -> None:
        """``switch`` has died; plans that need it are refused from now on. Takes no lock."""
        self._lost[switch] = why

    def install(self, plans: Mapping[str, Plan]) -> None:
        """Install the rules of ``plans``, each under its name prefix.

        Raises:
            ControlError: a switch that they need has died or does not answer.
        """
        for prefix, plan in plans.items():
            for switch in self._topology.switches:
                if rules := rule_messages(plan, switch):
                    self._require(switch, plan)
                    self._messenger.ask(switch, "install_group", group=prefix, rules=rules)

    def remove(self, plans: Mapping[str, Plan]) -> None:
        """Take the rules of ``plans`` away, in the background."""
        for prefix, plan in plans.items():
            holders = [s for s in self._topology.switches if plan.rules_for(s)]
            alive = [switch for switch in holders if switch not in self._lost]
            self._messenger.tell(alive, "remove_group", group=prefix)

    def _require(self, switch: str, plan: Plan) -> None:
        if switch in self._lost:
            raise ControlError(
                f"switch {self._lost[switch]}, and the {plan.algorithm} plan needs it. "
                "Launch the network again."
            )


def rule_messages(plan: Plan, node: str) -> list[dict[str, Any]]:
    """The rules of ``plan`` for ``node`` as control messages."""
    return [
        RuleMessage(
            interval=str(rule.interval),
            operands=[(str(operand.interval), operand.node) for operand in rule.operands],
            primary=rule.primary,
        ).model_dump()
        for rule in plan.rules_for(node)
    ]
