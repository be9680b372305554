"""The groups of all jobs: who is in them, who is missing, and what a failure ends."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from innet.cluster.control.group_keys import GroupKeys
from innet.cluster.control.group_plans import GroupPlans
from innet.cluster.control.placements import Placements
from innet.errors import ControlError
from innet.node.control.jobs import Job, JobRegistry
from innet.node.control.messenger import Messenger
from innet.node.control.protocol import Failure
from innet.node.control.resumption import LaunchRecord
from innet.node.control.worker_reports import GroupReport, WorkerReport
from innet.plans import Plan

if TYPE_CHECKING:
    from innet.security.trust.rights import GroupRights

GroupKey = tuple[str, int]
"""A group's name and number."""


@dataclass
class Group:
    """A group of ranks and its plans, one per algorithm it may use.

    Attributes:
        name: as users know it.
        job: whose it is.
        algorithm: as asked for; ``auto`` has several plans.
        ranks: node of each rank.
        plans: plan by name prefix of its rules, such as ``/j1/g0.inc``, for the whole network.
        placed: the same plans where their sums are made now.
        number: tells the group from others of that name, in its job and in others.
        joined: the ranks that have come.
        ready: those of them that answer for their names.
        left: those that need nothing more.
        founder: the group whose survivors these are, by name and number; itself for any other.
        lost: the ranks whose process has ended.
        sealed: the packet with its credentials for each member that has come, hexadecimal.
        rights: what each node's key may sign, where a policy says so.
    """

    name: str
    job: str
    algorithm: str
    ranks: tuple[str, ...]
    plans: dict[str, Plan]
    placed: dict[str, Plan]
    number: int
    joined: set[int] = field(default_factory=set)
    ready: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)
    founder: GroupKey | None = None
    lost: set[int] = field(default_factory=set)
    sealed: dict[str, str] = field(default_factory=dict)
    rights: GroupRights | None = None

    @property
    def key(self) -> GroupKey:
        """What tells the group from all others of the job."""
        return self.name, self.number

    @property
    def has_begun(self) -> bool:
        """Whether all ranks have been ready: since then its operations tell of what ends it."""
        return len(self.ready) == len(self.ranks)

    def survivors(self) -> tuple[str, ...]:
        """The nodes of the ranks that are not lost."""
        return tuple(self.ranks[rank] for rank in self.ranks_but(self.lost))

    def ranks_but(self, others: set[int]) -> list[int]:
        """All ranks except these."""
        return sorted(set(range(len(self.ranks))) - others)


@dataclass(frozen=True)
class FailedGroup:
    """A group that has failed, and what its members were told."""

    group: Group
    said: dict[str, Any]


class GroupRegistry:
    """The groups of all jobs, and which of their nodes have failed or ended.

    Not for several threads at once: the controller holds its lock around every call.
    """

    def __init__(
        self,
        jobs: JobRegistry,
        plans: GroupPlans,
        placements: Placements,
        keys: GroupKeys,
        messenger: Messenger,
    ) -> None:
        self._jobs = jobs
        self._plans = plans
        self._placements = placements
        self._keys = keys
        self._messenger = messenger
        self._groups: list[Group] = []
        self._failed: dict[str, str] = {}
        self._failed_groups: dict[GroupKey, FailedGroup] = {}
        self._successors: dict[GroupKey, Group] = {}
        self._gone: dict[str, str] = {}
        self._disagreements: dict[tuple[str, str], str] = {}
        """By a group's name and a node that has not heard of it yet."""

    def join(self, group: str, algorithm: str, ranks: tuple[str, ...], node: str) -> Group:
        """The process on ``node`` is there; the first to come has the plan made and installed.

        When ranks disagree about the group, each of them hears so once, also those that come later.

        Raises:
            PlanError: the algorithm is unknown or does not fit.
            ControlError: ranks disagree about the group, a switch does not answer, or a node that
                the group needs is gone.
        """
        if (why := self._disagreements.pop((group, node), None)) is not None:
            raise ControlError(why)
        known = self._group_of(group, node)
        if known is None:
            job = self._jobs.of(node)
            _require_hosts_of(job, group, ranks)
            self._require_alive(group, ranks, frozenset())
            self._require_paths(group, ranks)
            known = self._create(job, group, algorithm, ranks)
        elif (known.algorithm, known.ranks) != (algorithm, ranks):
            why = _disagreement(known, algorithm, ranks, node)
            self._disagree(known, {*known.ranks, *ranks} - {node}, why)
            raise ControlError(why)
        self._require_alive(group, ranks, known.joined)
        known.joined.add(known.ranks.index(node))
        return known

    def _disagree(self, group: Group, to_tell: Collection[str], why: str) -> None:
        if not group.has_begun:
            self._remove(group)
            self._disagreements |= {(group.name, other): why for other in to_tell}

    def ready(self, group: str, number: int, node: str) -> list[int]:
        """``node`` answers for all its names of the group; the ranks that do not yet.

        Raises:
            ControlError: a node that is missing is gone or has left, or all have left the group.
        """
        known = self._numbered(group, number) or self._failed_group(group, number)
        if known is None:
            raise ControlError(f"group {group!r} is over; join another one")
        known.ready.add(known.ranks.index(node))
        self._require_alive(group, known.ranks, known.ready)
        if early := known.left - known.ready:
            rank = min(early)
            raise ControlError(
                f"rank {rank} ({known.ranks[rank]}) left group {group!r} before all its ranks "
                "were ready; what did it end with?"
            )
        return known.ranks_but(known.ready)

    def shrink(self, group: str, number: int, node: str, heard: Failure | None = None) -> Group:
        """``node`` goes on in a group of those who survived the failure of ``group``.

        All survivors come to the same group. Should another of them fail before it has come about,
        the next one is made of those who are left: they ask until nobody is missing.

        Args:
            heard: what ended an operation of ``node``, and the rank that says so, which has left
                but may not have come to say it here.

        Raises:
            PlanError: the group's algorithm does not fit the survivors.
            ControlError: no rank of the group has failed or left, or ``node`` itself has.
        """
        failed = self._failed_groups.get((group, number)) or self._fail_left(group, number, heard)
        founder = failed.group.founder or failed.group.key
        current = self._successors.get(founder)
        if current is None or current.lost or current not in self._groups:
            current = self._succeed(founder, current or failed.group)
        if node not in current.ranks:
            raise ControlError(
                f"{node} is not among the survivors of group {group!r} "
                f"({', '.join(current.ranks)}): it counts as failed, or has left"
            )
        current.joined.add(current.ranks.index(node))
        return current

    def leave(self, group: str, number: int, node: str) -> list[int]:
        """``node`` needs nothing more of the group; the ranks that still do.

        When none does, the group is over, and all its members hear so. Ranks whose node is gone
        are not waited for.
        """
        known = self._numbered(group, number)
        if known is None:
            return []
        known.left.add(known.ranks.index(node))
        return self._close_if_left(known)

    def failure_to_begin(self, group: str, number: int) -> dict[str, Any] | None:
        """As :meth:`failure_of`, if it failed before all its ranks were ready."""
        failed = self._failed_group(group, number)
        return None if failed is None or failed.has_begun else self.failure_of(group, number)

    def failure_of(self, group: str, number: int) -> dict[str, Any] | None:
        """What the members of a group that has failed were told; ``None`` if it has not."""
        failed = self._failed_groups.get((group, number))
        return None if failed is None else failed.said

    def renew(self, node: str) -> None:
        """Another process stands for ``node``: what the earlier was in ends."""
        self._end_groups_of(node, "was started anew")
        self._failed.pop(node, None)
        self._gone.pop(node, None)
        self._forget_disagreements({node})

    def fail(self, node: str, why: str) -> None:
        """The process on ``node`` has failed: its groups end, and their members hear ``why``.

        Groups that it had not joined yet wait for another process on that node.
        """
        if node not in self._failed:
            self._failed[node] = why
            self._end_groups_of(node, why)

    def blame(self, group: str, number: int, node: str, why: str, rank: int | None) -> None:
        """A group has failed of its ``rank``, as ``node``, a member, has heard from another."""
        known = self._numbered(group, number)
        if known is not None and node in known.ranks:  # another job's groups are not for it to end
            known.lost |= known.left
            self._fail_group(known, {node}, why, rank)

    def lose(self, node: str, why: str) -> None:
        """``node`` has failed, and no other process will come for it."""
        self.fail(node, why)
        self._gone[node] = self._failed[node]

    def end(self, node: str) -> None:
        """The process of ``node`` has ended as it should; nobody waits for it any more."""
        self._gone[node] = ""
        self._lose_rank(node)
        for group in [group for group in self._groups if node in group.ranks]:
            self._close_if_left(group)

    def adapt(self) -> None:
        """The network has changed: make the groups' sums on what is left of it.

        Groups whose ranks are cut off from each other for good end, and their members hear why.
        """
        for group in list(self._groups):
            if why := self._placements.survivors.separation(group.ranks):
                self._fail_group(group, frozenset(), why, None)
        moved = [group for group in self._groups if self._place(group)]
        self._keys.meet_switches(self._placements.survivors.switches, anew=True)
        self._placements.adapt_switches(
            {prefix: plan for group in self._groups for prefix, plan in group.placed.items()},
            lambda switch: [m for g in self._groups for m in self._keys.for_switch(g, switch)],
        )
        for group in moved:
            self._tell_placement(group)

    def restore(self, reports: Sequence[WorkerReport], record: LaunchRecord) -> None:
        """Know again who failed or is gone, and the groups that workers say they are in."""
        self._failed = dict(record.failed)
        self._gone = dict(record.gone)
        for report in reports:
            self._failed.pop(report.node, None)  # another process has come for it
            self._gone.pop(report.node, None)
            if report.failed is not None:
                self._failed[report.node] = report.failed
        for report in reports:
            for group in report.groups:
                self._restore_place(report.node, group)
        for node, why in self._failed.items():  # its members may not have heard of it
            self._end_groups_of(node, why)

    def _restore_place(self, node: str, report: GroupReport) -> None:
        key = report.name, report.number
        failed = self._failed_group(*key)
        known = failed or self._numbered(*key) or self._restored(node, report)
        rank = known.ranks.index(node)
        known.ready |= {rank} if report.ready else set()
        known.left |= {rank} if report.left else set()
        if report.failure is not None and failed is None:
            why, culprit = report.failure
            self._fail_group(known, frozenset(), why, culprit)  # others may not have heard of it

    def _restored(self, node: str, report: GroupReport) -> Group:
        job = self._jobs.of(node).name
        plans = {prefix: Plan.from_dict(plan) for prefix, plan in report.plans.items()}
        group = Group(report.name, job, report.algorithm, report.ranks, plans, {}, report.number)
        group.joined.update(range(len(group.ranks)))  # or no member would be one
        self._groups.append(group)
        return group

    def failures(self) -> list[str]:
        """The nodes that failed in this job, the first to fail at the beginning."""
        return list(self._failed)

    def ended(self) -> list[str]:
        """The nodes whose process has ended as it should, and has no successor."""
        return [node for node, why in self._gone.items() if not why]

    def forget(self, job: Job) -> None:
        """The job is over: drop its groups, and who failed in it."""
        for group in [group for group in self._groups if set(group.ranks) & set(job.hosts)]:
            self._remove(group)
        self._plans.forget(job.prefix)
        over = [key for key, failed in self._failed_groups.items() if failed.group.job == job.name]
        for key in over:
            del self._failed_groups[key]
            self._successors.pop(key, None)
        for host in job.hosts:
            self._failed.pop(host, None)
            self._gone.pop(host, None)
        self._forget_disagreements(job.hosts)

    def _forget_disagreements(self, nodes: Collection[str]) -> None:
        for key in [key for key in self._disagreements if key[1] in nodes]:
            del self._disagreements[key]

    def describe(self) -> list[dict[str, Any]]:
        """The groups there are, for status displays."""
        return [
            {
                "name": group.name,
                "job": group.job,
                "algorithm": group.algorithm,
                "ranks": list(group.ranks),
                "joined": sorted(group.joined),
            }
            for group in self._groups
        ]

    def describe_plans(self) -> list[dict[str, Any]]:
        """The plans of the groups; see ``Controller.plans``."""
        return [
            {
                "ranks": list(group.ranks),
                "plans": {
                    prefix: [made.to_dict(), group.placed[prefix].to_dict()]
                    for prefix, made in group.plans.items()
                },
            }
            for group in self._groups
        ]

    def _group_of(self, name: str, node: str) -> Group | None:
        """The group of that name that ``node`` may join or has joined, and not left."""
        for group in self._groups:
            members = group.ranks if group.name == name else ()
            if node in members and members.index(node) not in group.left:
                return group
        return None

    def _numbered(self, name: str, number: int) -> Group | None:
        return next((g for g in self._groups if g.name == name and g.number == number), None)

    def _failed_group(self, name: str, number: int) -> Group | None:
        failed = self._failed_groups.get((name, number))
        return None if failed is None else failed.group

    def _fail_left(self, name: str, number: int, heard: Failure | None) -> FailedGroup:
        """End a group that ranks have left, for those who need them."""
        group = self._numbered(name, number)
        why, left = heard or ("", None)
        if group is not None and left is not None and left in range(len(group.ranks)):
            group.left.add(left)
        if group is None or not group.left:
            raise ControlError(
                f"no rank of group {name!r} has failed or left; there is none to go without. A "
                "rank that hangs can be given up: comm.expel(rank, why)"
            )
        rank = min(group.left)
        group.lost |= group.left
        if rank != left:
            why = f"rank {rank} ({group.ranks[rank]}) left the group"
        self._fail_group(group, (), why, rank)
        return self._failed_groups[group.key]

    def _succeed(self, founder: GroupKey, latest: Group) -> Group:
        """Make the next group of those who are left of ``latest``."""
        if latest in self._groups:
            rank = min(latest.lost)
            why = f"rank {rank} ({latest.ranks[rank]}) ended before the group had come about"
            self._fail_group(latest, (), why, rank)
        job = self._jobs.of(latest.ranks[0])
        successor = self._create(job, founder[0], latest.algorithm, latest.survivors())
        self._require_placed_on_living(successor, [latest.ranks[rank] for rank in latest.lost])
        successor.founder = founder
        self._successors[founder] = successor
        return successor

    def _require_placed_on_living(self, group: Group, dead: Sequence[str]) -> None:
        for node in dead:
            rules = (rule for plan in group.plans.values() for rule in plan.rules_for(node))
            if any(rule.primary for rule in rules):
                self._remove(group)
                raise ControlError(
                    f"the algorithm {group.algorithm!r} makes sums on {node}, whose process is "
                    "gone. Make a group of the survivors by innet.init() with another algorithm"
                )

    def _lose_rank(self, node: str) -> None:
        """``node`` is none of the survivors of what its process was in, whoever comes in its place.

        A group that still forms waits for another process, unless its ranks are survivors.
        """
        for group in (*self._groups, *(failed.group for failed in self._failed_groups.values())):
            rank = group.ranks.index(node) if node in group.ranks else None
            if rank is not None and (rank in group.joined or group.founder is not None):
                group.lost.add(rank)

    def _end_groups_of(self, node: str, why: str) -> None:
        self._lose_rank(node)
        for group in list(self._groups):
            if node in group.ranks and (rank := group.ranks.index(node)) in group.joined:
                self._fail_group(group, {node}, f"rank {rank} ({node}) {why}", rank)

    def _fail_group(self, group: Group, but: Collection[str], why: str, rank: int | None) -> None:
        said = {"why": why, "rank": rank}
        self._remove(group)
        self._failed_groups[group.key] = FailedGroup(group, said)
        self._tell_members(group, but, "fail_group", **said)

    def _close_if_left(self, group: Group) -> list[int]:
        """The ranks that still use the group; when there are none, it is over."""
        absent = {rank for rank, other in enumerate(group.ranks) if other in self._gone}
        using = group.ranks_but(group.left | absent)
        if not using:
            self._remove(group)
            self._tell_members(group, set(self._gone), "end_group")
        return using

    def _create(self, job: Job, name: str, algorithm: str, ranks: tuple[str, ...]) -> Group:
        number, plans = self._plans.make(job.prefix, name, algorithm, ranks)
        placed = self._placements.place(plans)
        group = Group(name, job.name, algorithm, ranks, plans, placed, number)
        self._groups.append(group)
        self._keys.meet_switches(self._placements.survivors.switches)
        try:
            self._placements.install(placed, partial(self._keys.for_switch, group))
        except ControlError:
            self._remove(group)
            raise
        return group

    def _place(self, group: Group) -> bool:
        """Place the group's sums on what is left of the network; whether they moved."""
        before, group.placed = group.placed, self._placements.place(group.plans)
        return group.placed != before

    def _remove(self, group: Group) -> None:
        self._groups.remove(group)
        self._placements.remove(group.plans)

    def _require_paths(self, group: str, ranks: Sequence[str]) -> None:
        if why := self._placements.survivors.separation(ranks):
            raise ControlError(
                f"group {group!r} cannot be made: {why}. Launch the network again, or allow more "
                "restarts of switches (recovery.switch_restarts)."
            )

    def _require_alive(self, group: str, ranks: Sequence[str], joined: Set[int]) -> None:
        for rank, node in enumerate(ranks):
            if rank in joined or node not in self._gone:
                continue
            why = self._gone[node] or f"ended without joining group {group!r}"
            raise ControlError(f"rank {rank} ({node}) {why}")

    def _tell_placement(self, group: Group) -> None:
        plans = {prefix: plan.to_dict() for prefix, plan in group.placed.items()}
        keys = self._keys.renew(group)
        for member in (group.ranks[rank] for rank in sorted(group.joined)):
            self._messenger.tell(
                [member],
                "place_group",
                group=group.name,
                number=group.number,
                plans=plans,
                keys=keys.get(member),
            )

    def _tell_members(
        self, group: Group, but: Collection[str], method: str, **parameters: Any
    ) -> None:
        members = [group.ranks[r] for r in sorted(group.joined) if group.ranks[r] not in but]
        self._messenger.tell(members, method, group=group.name, number=group.number, **parameters)


def _disagreement(group: Group, algorithm: str, ranks: Sequence[str], node: str) -> str:
    """Which ranks called :func:`innet.init` with which arguments, where these differ."""
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


def _require_hosts_of(job: Job, group: str, ranks: Sequence[str]) -> None:
    if strangers := [node for node in ranks if node not in job.hosts]:
        raise ControlError(
            f"group {group!r} is to have {', '.join(strangers)}, which job {job.name} has not; its "
            f"hosts are {', '.join(job.hosts)}"
        )
