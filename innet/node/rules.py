"""Installs reduction rules on a node of this process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from innet._native import _core

if TYPE_CHECKING:
    from innet.plans import Rule


def install_rules(node: _core.NodeHandle, group: str, rules: Iterable[Rule]) -> None:
    """Let ``node`` make the sums of ``rules`` under the name prefix ``group``."""
    for rule in rules:
        operands = [(str(operand.interval), f"/n/{operand.node}") for operand in rule.operands]
        node.install_rule(group, str(rule.interval), operands, rule.primary)
