"""The names of a group: whom to ask for what, made once."""

from __future__ import annotations

from collections.abc import Mapping

from innet._native import _core
from innet.plans import Plan, PlanChooser


class Variant:
    """One plan of a group, with the names of its values ready for use.

    Attributes:
        prefix: name prefix of the plan's rules, such as ``/j1/g0.inc``.
        plan: the plan.
        own: name prefix of this rank's contributions.
        roots: whom to ask for a reduction over all ranks, by shard.
        ranks: whom to ask for one rank's contribution.
    """

    def __init__(self, prefix: str, plan: Plan, rank: int) -> None:
        self.prefix = prefix
        self.plan = plan
        self.own = _core.Name(f"{prefix}/{rank}")
        self.roots = _core.Targets(
            [
                (f"{prefix}/{root.interval}", f"/n/{root.node}", not root.interval.is_single)
                for root in plan.roots
            ]
        )
        self.ranks = [
            _core.Targets([(f"{prefix}/{r}", f"/n/{node}", False)])
            for r, node in enumerate(plan.ranks)
        ]


class Variants:
    """The plans a group may use, and which it uses for how much."""

    def __init__(self, plans: Mapping[str, Plan], rank: int, chooser: PlanChooser | None) -> None:
        self.all = [Variant(prefix, plan, rank) for prefix, plan in plans.items()]
        self._chooser = chooser
        self._by_algorithm = {variant.plan.algorithm: variant for variant in self.all}
        self._by_size: dict[int, Variant] = {}

    @property
    def first(self) -> Variant:
        """The plan for whatever is no reduction: all serve contributions alike."""
        return self.all[0]

    def for_size(self, size_bytes: int) -> Variant:
        """The plan for a reduction of ``size_bytes`` per rank: the same on every rank."""
        if self._chooser is None:
            return self.first
        variant = self._by_size.get(size_bytes)
        if variant is None:
            chosen = self._chooser.choose(size_bytes).plan.algorithm
            variant = self._by_size[size_bytes] = self._by_algorithm[chosen]
        return variant

    def explain(self, size_bytes: int) -> str:
        """Why a reduction of this size goes the way it goes."""
        if self._chooser is None:
            return self.first.plan.why
        return self._chooser.choose(size_bytes).why
