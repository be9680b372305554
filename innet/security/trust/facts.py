"""Facts for policies that no name states: which node holds which rank or makes which sum.

A policy is the same for every job; a group's plan differs. Policies reach it by functions, which
:func:`functions_of` binds to the plans of the groups there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from innet.security.trust.tlv import decode
from innet.tlv_numbers import ComponentType

if TYPE_CHECKING:
    from innet.plans import Plan

Function: TypeAlias = Callable[[bytes, Sequence[bytes | None]], bool]
"""A function of a policy: the component that is judged, and its arguments' components.

An argument is ``None`` when the name that it would be taken from is not known yet.
"""

_RANK = re.compile(r"0|[1-9][0-9]*")
_INTERVAL = re.compile(r"(0|[1-9][0-9]*)-(0|[1-9][0-9]*)")


@dataclass(frozen=True)
class GroupFacts:
    """The nodes that a group's plan names.

    Attributes:
        positions: the node of each rank as the plan counts them, which contributions are named by.
        members: the node of each rank as the group counts them, which messages are named by.
        sums: the nodes that make each interval for others.
    """

    positions: tuple[str, ...]
    members: tuple[str, ...]
    sums: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of_plan(cls, plan: Plan, members: Sequence[str] | None = None) -> GroupFacts:
        """The facts of a plan, for a group of ``members`` (the plan's own order by default)."""
        sums = {str(i): frozenset(plan.nodes_for(i)) for i in plan.intervals}
        return cls(plan.ranks, tuple(plan.ranks if members is None else members), sums)

    def merged_with(self, earlier: GroupFacts) -> GroupFacts:
        """This group, with the nodes of both placements for each interval."""
        sums = {
            interval: self.sums.get(interval, frozenset()) | earlier.sums.get(interval, frozenset())
            for interval in {**earlier.sums, **self.sums}
        }
        return GroupFacts(self.positions, self.members, sums)


Facts: TypeAlias = Mapping[str, GroupFacts]
"""The groups there are, by the prefix of their names: ``/j1/g0.inc``."""


def functions_of(facts: Facts) -> dict[str, Function]:
    """The functions that policies may call, beside ``$eq`` and ``$eq_type``, by name.

    ``$holds(job, group, rank)``, ``$member(job, group, rank)`` and ``$places(job, group, ranks)``
    judge a node; ``$rank()``, ``$interval()`` and ``$not(...)`` a component.
    """

    def group_of(arguments: Sequence[bytes | None]) -> tuple[GroupFacts, str] | None:
        texts = [_text(argument) for argument in arguments]
        if len(texts) != 3 or None in texts:
            return None
        group = facts.get(f"/{texts[0]}/{texts[1]}")
        return None if group is None else (group, texts[2] or "")

    def holds(node: bytes, arguments: Sequence[bytes | None]) -> bool:
        known = group_of(arguments)
        return known is not None and _is_at(known[0].positions, known[1], node)

    def is_member(node: bytes, arguments: Sequence[bytes | None]) -> bool:
        known = group_of(arguments)
        return known is not None and _is_at(known[0].members, known[1], node)

    def places(node: bytes, arguments: Sequence[bytes | None]) -> bool:
        known = group_of(arguments)
        return known is not None and _text(node) in known[0].sums.get(known[1], ())

    return {
        "$holds": holds,
        "$member": is_member,
        "$places": places,
        "$rank": lambda value, _: _matches(_RANK, value),
        "$interval": lambda value, _: _matches(_INTERVAL, value),
        "$not": lambda value, arguments: all(bytes(value) != bytes(a or b"") for a in arguments),
    }


def _is_at(nodes: Sequence[str], rank: str, node: bytes) -> bool:
    if not _RANK.fullmatch(rank) or len(rank) > len(str(len(nodes))):
        return False
    return int(rank) < len(nodes) and nodes[int(rank)] == _text(node)


def _matches(pattern: re.Pattern[str], value: bytes) -> bool:
    text = _text(value)
    return text is not None and pattern.fullmatch(text) is not None


def _text(component: bytes | None) -> str | None:
    """The text of a generic component; ``None`` for any other."""
    if component is None:
        return None
    [(kind, value)] = decode(bytes(component))
    return value.decode(errors="replace") if kind == ComponentType.GENERIC else None
