"""The plans of a group: made from the algorithm's name, under name prefixes of their own."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import Any

from innet.errors import ControlError
from innet.plans import Plan, PlanChooser, make_plan, rank_order
from innet.topology import Topology

_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,15}")
"""Names of groups that go into name components as they are; they leave room for the rest."""


class GroupPlans:
    """Makes the plans of each group of a job.

    No two groups have a prefix in common, not even one after the other or in the next job: caches
    on the way may hold what the name meant before.
    """

    def __init__(self, topology: Topology, job: str) -> None:
        self._topology = topology
        self._job = job
        self._job_number = 1
        self._made: Counter[str] = Counter()

    def make(
        self, name: str, algorithm: str, ranks: tuple[str, ...]
    ) -> tuple[int, dict[str, Plan]]:
        """The number of a new group of that name, from 1, and its plans by name prefix.

        Raises:
            PlanError: the algorithm is unknown or does not fit.
            ControlError: its options cannot be read.
        """
        plans = self._by_variant(algorithm, rank_order(self._topology, ranks))
        label = _label(name)
        self._made[label] += 1
        number = self._made[label]
        return number, {self._prefix(label, v, number): plan for v, plan in plans.items()}

    def next_job(self) -> None:
        """The groups made from now on belong to another job."""
        self._job_number += 1
        self._made.clear()

    def _by_variant(self, algorithm: str, positions: tuple[str, ...]) -> dict[str, Plan]:
        if algorithm == "auto":
            return dict(PlanChooser(self._topology, positions).plans)
        base, _, options = algorithm.partition(":")
        return {base: make_plan(base, self._topology, positions, **plan_options(options))}

    def _prefix(self, label: str, variant: str, number: int) -> str:
        again = f".{number}" if number > 1 else ""
        return f"/{self._job}{self._job_number}/{label}.{variant}{again}"


def plan_options(text: str) -> dict[str, Any]:
    """Options behind an algorithm's name: ``inc:roots=s0+s1`` or ``ps:server=h3``.

    A value with ``+`` is a list; ``place=0-7@h3+0-3@s1`` is a mapping.

    >>> plan_options("roots=spine0+spine1")
    {'roots': ('spine0', 'spine1')}
    """
    options: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise ControlError(f"plan option {part!r} is not of the form name=value")
        parts = tuple(value.split("+"))
        if key == "place":
            options[key] = dict(item.split("@", 1) for item in parts if "@" in item)
        else:
            options[key] = parts if key == "roots" else value
    return options


def _label(group: str) -> str:
    """The group's name as part of a name component: as it is when it is short and plain."""
    if _PLAIN_NAME.fullmatch(group):
        return group
    return hashlib.blake2s(group.encode(), digest_size=6).hexdigest()
