"""Groups of ranks, their plans and their names."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from innet.errors import ControlError
from innet.plans import NO_LOAD, Load, Plan, PlanChooser, ProcessorCosts, make_plan, rank_order
from innet.topology import Topology

if TYPE_CHECKING:
    from innet.security.trust.rights import GroupRights

_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,15}")
"""Names of groups that go into name components as they are; they leave room for the rest."""
_LABEL = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""The part of a plan's prefix behind the job's: label, variant and number."""
_GROUPS_PER_GENERATION = 1 << 24

GroupKey = tuple[str, str, int]
"""The job of a group, its name and its number."""


@dataclass
class Group:
    """A group of ranks and its plans, one per algorithm it may use.

    Attributes:
        name: as users know it.
        algorithm: as requested; ``auto`` has several plans.
        ranks: node of each rank.
        plans: by name prefix, such as ``/j1/g0.inc``, as made for the whole network.
        placed: the same plans where their sums are made now.
        number: distinguishes the group from others of that name, in its job and in others.
        joined: the ranks that have joined.
        complete: the joined ranks that know that all ranks have joined.
        ready: the joined ranks that serve their names.
        left: the joined ranks that need nothing more of the group.
        founder: the failed group whose survivors these are, by its key; ``None`` for a
            group that :func:`innet.init` made.
        lost: the ranks whose process has ended.
        sealed: the packet with its credentials for each member that has joined, hexadecimal.
        rights: what each node's key may sign, where a policy says so.
        load: what others used of the network when the plans were made.
        preferred: by name prefix, trees that are faster beside the present load than those of the
            plan as made.
    """

    name: str
    job: str
    algorithm: str
    ranks: tuple[str, ...]
    plans: dict[str, Plan]
    placed: dict[str, Plan]
    number: int
    joined: set[int] = field(default_factory=set)
    complete: set[int] = field(default_factory=set)
    ready: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)
    founder: GroupKey | None = None
    lost: set[int] = field(default_factory=set)
    sealed: dict[str, str] = field(default_factory=dict)
    rights: GroupRights | None = None
    load: Load = NO_LOAD
    preferred: dict[str, Plan] = field(default_factory=dict)

    @property
    def key(self) -> GroupKey:
        """Distinguishes the group from all others."""
        return self.job, self.name, self.number

    @property
    def has_begun(self) -> bool:
        """Whether all ranks have been ready: since then its operations say what ends it."""
        return len(self.ready) == len(self.ranks)

    def rank_of(self, node: str) -> int:
        """The rank on ``node``.

        Raises:
            ControlError: the group has none there.
        """
        if node not in self.ranks:
            raise ControlError(f"{node} has no rank of group {self.name!r}")
        return self.ranks.index(node)

    def has(self, rank: int | None) -> bool:
        """Whether another process may name this rank of the group; ``None`` is none."""
        return rank is None or rank in range(len(self.ranks))

    def survivors(self) -> tuple[str, ...]:
        """The nodes of the ranks that are not lost."""
        return tuple(self.ranks[rank] for rank in self.ranks_but(self.lost))

    def keep_moves(self, placed: Mapping[str, Plan]) -> None:
        """Prefer the trees to which a controller before this one has moved the sums.

        Its members have them, also those that were chosen without a switch that was lost: these are
        compared with the others as all are.
        """
        for prefix, plan in placed.items():
            made = self.plans.get(prefix)
            if made is not None and plan.expressions == made.expressions:
                self.preferred.setdefault(prefix, plan)

    def ranks_but(self, others: set[int]) -> list[int]:
        """All ranks except these."""
        return sorted(set(range(len(self.ranks))) - others)


def disagreement(group: Group, algorithm: str, ranks: Sequence[str], node: str) -> str:
    """Describes the differing arguments of :func:`innet.init` by rank."""
    differing = {
        "algorithm": (algorithm, group.algorithm),
        "nodes": (",".join(ranks), ",".join(group.ranks)),
    }
    theirs, others = (
        ", ".join(f"{name}={said[side]}" for name, said in differing.items() if said[0] != said[1])
        for side in (0, 1)
    )
    came = ", ".join(f"rank {rank} ({group.ranks[rank]})" for rank in sorted(group.joined))
    return (
        f"ranks disagree about group {group.name!r}: rank {ranks.index(node)} ({node}) joins it "
        f"with {theirs}, and {came} with {others}; call innet.init() with the same arguments on "
        "every rank"
    )


class GroupPlans:
    """Makes the plans of each group of each job.

    No two groups of a job ever have the same prefix, because caches on the path may hold data of an
    earlier group.
    """

    def __init__(self, topology: Topology, generation: int = 0) -> None:
        """``generation``: how often the controller was started again."""
        self._topology = topology
        self._generation = generation
        self._made: Counter[tuple[str, str]] = Counter()
        self._numbers: Counter[str] = Counter()

    def make(
        self, job: str, name: str, algorithm: str, ranks: tuple[str, ...], load: Load = NO_LOAD
    ) -> tuple[int, dict[str, Plan]]:
        """The number of a new group, and its plans by name prefix, made for the load of others.

        Numbers count by label, not by name: a key is called by both, and a name may be chosen that
        is another's label.
        """
        plans = self._by_variant(algorithm, rank_order(self._topology, ranks), load)
        label = _label(name)
        self._numbers[label] += 1
        number = self._generation * _GROUPS_PER_GENERATION + self._numbers[label]
        self._made[job, label] += 1
        again = self._again(self._made[job, label])
        return number, {f"{job}/{label}.{variant}{again}": plan for variant, plan in plans.items()}

    def reported(
        self, documents: Mapping[str, dict[str, Any]], job: str, ranks: Sequence[str]
    ) -> dict[str, Plan]:
        """The plans that a worker reports of a group of ``ranks``, by name prefix.

        Raises:
            InnetError: one is of another job or of other ranks, has unknown nodes, or is no plan.
        """
        plans = {}
        for prefix, document in documents.items():
            of_job, _, label = prefix.rpartition("/")
            plans[prefix] = plan = Plan.from_dict(document)
            operands = (operand for rule in plan.rules for operand in rule.operands)
            nodes = {placed.node for placed in (*operands, *plan.roots)}
            nodes |= {rule.node for rule in plan.rules}
            is_known = nodes <= self._topology.nodes.keys()
            is_own = of_job == job and _LABEL.fullmatch(label) and set(plan.ranks) == set(ranks)
            if not (is_known and is_own):
                raise ControlError(f"{prefix!r} is no plan of this job and these ranks")
        return plans

    def forget(self, job: str) -> None:
        """The job is over, and its prefix is never used again."""
        for key in [key for key in self._made if key[0] == job]:
            del self._made[key]

    def _again(self, made: int) -> str:
        if self._generation > 0:
            return f".r{self._generation}.{made}"
        return f".{made}" if made > 1 else ""

    def _by_variant(
        self, algorithm: str, positions: tuple[str, ...], load: Load
    ) -> dict[str, Plan]:
        if algorithm == "auto":
            return dict(PlanChooser(self._topology, positions, load=load).plans)
        name = algorithm.partition(":")[0]
        return {name: named_plan(algorithm, self._topology, positions, load=load)}


def named_plan(
    algorithm: str,
    topology: Topology,
    positions: Sequence[str],
    size_bytes: int | None = None,
    processor: ProcessorCosts | None = None,
    load: Load = NO_LOAD,
) -> Plan:
    """The plan of an algorithm with its options, such as ``ps:server=h3``.

    ``positions`` are the ranks' nodes in the order of :func:`innet.plans.rank_order`; ``auto``
    chooses by ``size_bytes`` and the costs of the ``processor``, and both ``auto`` and ``inc`` by
    the ``load``.
    """
    name, _, text = algorithm.partition(":")
    options = plan_options(text)
    if name == "auto":
        options["processor"] = processor
        if size_bytes is not None:
            options.setdefault("size_bytes", size_bytes)
    if name in ("auto", "inc"):
        options["load"] = load
    return make_plan(name, topology, positions, **options)


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
