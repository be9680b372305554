"""The groups of all jobs: their members, missing members, and failures."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

from innet.cluster.control.actions import Operation, Outbox
from innet.cluster.control.group_keys import GroupKeys
from innet.cluster.control.group_plans import Group, GroupKey, GroupPlans, disagreement
from innet.cluster.control.jobs import Job, JobRegistry, LaunchRecord
from innet.cluster.control.placements import Placements
from innet.errors import ControlError, InnetError, RankFailed
from innet.node.messages import GroupFailure, GroupReport, WorkerReport
from innet.plans import NO_LOAD, Load, Plan

_MAX_GROUPS_OF_JOB = 4096

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FailedGroup:
    """A failed group, and the failure that its members receive."""

    group: Group
    said: dict[str, Any]


class GroupRegistry:
    """The groups of all jobs, and which of their nodes have failed or ended."""

    def __init__(
        self,
        jobs: JobRegistry,
        plans: GroupPlans,
        placements: Placements,
        keys: GroupKeys,
        outbox: Outbox,
    ) -> None:
        self._jobs = jobs
        self._plans = plans
        self._placements = placements
        self._keys = keys
        self._outbox = outbox
        self._groups: list[Group] = []
        self._failed: dict[str, str] = {}
        self._failed_groups: dict[GroupKey, FailedGroup] = {}
        self._successors: dict[GroupKey, Group] = {}
        self._gone: dict[str, str] = {}
        self.load_beside: Callable[[str], Load] = lambda _job: NO_LOAD
        """The load of other jobs on the network, for the plans of a job's next group."""
        keys.on_learned = lambda switch: self._give_keys(switch, self._groups)
        self._disagreements: dict[tuple[str, str], str] = {}
        """Disagreements by group and node; a node is removed once it is informed."""
        self._failed_joins: dict[tuple[str, str], GroupFailure] = {}
        """Likewise, of groups that failed while the node waited for others to join."""

    def join(
        self, group: str, algorithm: str, ranks: Sequence[str], node: str
    ) -> Operation[dict[str, Any]]:
        """The process on ``node`` joins a group; for the first rank, its plans are installed.

        The result has the ranks that are ``missing``: a rank asks again until none is, registers
        its names, and says so by :meth:`ready`. ``plans`` are as they are placed now, ``made`` as
        they were made for the whole network, where that differs. ``number`` distinguishes the
        group from others of its name. ``keys`` are the group's credentials, sealed to the process.
        When ranks disagree about the group, each of them receives one error, also ranks that join
        later.
        """
        known = yield from self.admit(group, algorithm, tuple(ranks), node)
        return self._described(known, node)

    def admit(
        self, group: str, algorithm: str, ranks: tuple[str, ...], node: str
    ) -> Operation[Group]:
        """Join like :meth:`join`, and return the group itself to a driver in this process."""
        if (why := self._disagreements.pop((group, node), None)) is not None:
            raise ControlError(why)
        job = self._jobs.of(node)
        _require_members(job, group, ranks, node)
        known = self._group_of(group, node)
        if known is None:
            self._require_few(job)
            self._require_alive(group, ranks, frozenset(), node)
            self._require_paths(group, ranks)
            known = yield from self._create(job, group, algorithm, ranks)
        elif (known.algorithm, known.ranks) != (algorithm, ranks):
            why = disagreement(known, algorithm, ranks, node)
            self._disagree(known, {*known.ranks, *ranks} - {node}, why)
            raise ControlError(why)
        self._require_alive(group, ranks, known.joined, node)
        self._add_member(known, node)
        return known

    def _described(self, group: Group, node: str) -> dict[str, Any]:
        return {
            "keys": self._keys.for_member(group, node),
            "number": group.number,
            "missing": group.ranks_but(group.joined),
            "plans": _documents(group.placed),
            "made": _documents(group.plans) if group.placed != group.plans else None,
            "load": None if group.load.is_empty else group.load.model_dump(),
        }

    def _add_member(self, group: Group, node: str) -> None:
        rank = group.ranks.index(node)
        group.joined.add(rank)
        if len(group.joined) == len(group.ranks):
            group.complete.add(rank)
            self._failed_joins.pop((group.name, node), None)

    def _disagree(self, group: Group, to_tell: Collection[str], why: str) -> None:
        if not group.has_begun:
            self._remove(group)
            self._disagreements |= {(group.name, other): why for other in to_tell}

    def ready(self, group: str, number: int, node: str) -> dict[str, Any]:
        """``node`` serves all its names of the group; the result has the ``missing`` ranks.

        A rank asks again until none is: an Interest that reached a host before its names are
        registered would be refused there. ``failure`` is why the group failed before all its ranks
        were ready, if it did. A rank that asks after a later failure gets no missing ranks: its
        next operation in the group says what ended it, as for the ranks that asked a moment before.
        """
        key = self._key(group, number, node)
        failed = self._failed_groups.get(key)
        if failed is not None and not failed.group.has_begun:
            return {"missing": [], "failure": failed.said}
        known = self._present(key) or (failed.group if failed else None)
        if known is None:
            raise ControlError(f"group {group!r} is over; join another one")
        known.ready.add(known.rank_of(node))
        self._require_alive(group, known.ranks, known.ready, node)
        if early := known.left - known.ready:
            rank = min(early)
            raise ControlError(
                f"rank {rank} ({known.ranks[rank]}) left group {group!r} before all its ranks "
                "were ready; what did it end with?"
            )
        return {"missing": known.ranks_but(known.ready), "failure": None}

    def shrink(
        self, group: str, number: int, node: str, heard: Sequence[Any] | None = None
    ) -> Operation[dict[str, Any]]:
        """``node`` continues with the other survivors of a failed group; see :meth:`join`.

        The result also has the new group's ``name`` and ``ranks``. All survivors join the same
        group. When another of them fails before all have joined, the next group is made of the
        rest: they retry until no rank is missing.

        Args:
            heard: what ended an operation of ``node``, and the rank that reported it to
                ``node``: that rank has left, perhaps before the controller was notified.
        """
        key = self._key(group, number, node)
        failed = self._failed_groups.get(key) or self._fail_left(key, node, heard)
        failed.group.rank_of(node)
        founder = failed.group.founder or failed.group.key
        current = self._successors.get(founder)
        if current is None or current.lost or current not in self._groups:
            current = yield from self._succeed(founder, current or failed.group)
        if node not in current.ranks:
            raise ControlError(
                f"{node} is not among the survivors of group {group!r} "
                f"({', '.join(current.ranks)}): it counts as failed, or has left"
            )
        self._add_member(current, node)
        described = self._described(current, node)
        return {**described, "name": current.name, "ranks": list(current.ranks)}

    def leave_groups(self, groups: Sequence[tuple[str, int]], node: str) -> list[list[int]]:
        """``node`` needs nothing more of these groups; the ranks of each that still need it.

        When no rank needs a group, it ends, and the controller notifies all its members. It does
        not wait for ranks whose node has ended.
        """
        return [self.leave(group, number, node) for group, number in groups]

    def leave(self, group: str, number: int, node: str) -> list[int]:
        """See :meth:`leave_groups`."""
        known = self._present(self._key(group, number, node))
        if known is None:
            return []
        known.left.add(known.rank_of(node))
        return self._close_if_left(known)

    def failure_of(self, group: str, number: int, node: str) -> dict[str, Any] | None:
        """Why a group of ``node`` has failed, and its failed rank; ``None`` if it has not."""
        failed = self._failed_groups.get(self._key(group, number, node))
        return None if failed is None else failed.said

    def renew(self, node: str, why: str) -> None:
        """Another program has attached to ``node``: the groups of the earlier one end."""
        self._end_groups_of(node, why)
        is_first = node not in self._failed and node not in self._gone
        self._failed.pop(node, None)
        self._gone.pop(node, None)
        _forget(self._failed_joins, {node})
        if not is_first:  # the first process of a rank still has to learn that others disagreed
            _forget(self._disagreements, {node})

    def fail(self, node: str, why: str) -> None:
        """The process on ``node`` has failed: its groups end, and their members receive ``why``.

        Groups that it had not joined yet wait for another process on that node.
        """
        if node not in self._failed:
            self._failed[node] = why
            self._end_groups_of(node, why)

    def blame(self, group: str, number: int, node: str, why: str, rank: int | None) -> None:
        """A group has failed because of ``rank``, as another rank reported to ``node``."""
        known = self._present(self._key(group, number, node))
        if known is not None and node in known.ranks and known.has(rank):
            known.lost |= known.left
            self._fail_group(known, {node}, why, rank)

    def lose(self, node: str, why: str) -> None:
        """``node`` has failed, and no other process will take its place."""
        self.fail(node, why)
        self._gone[node] = self._failed[node]

    def end(self, node: str, how: str = "") -> None:
        """The process of ``node`` has ended with status 0; no group waits for it any more.

        A process that closes its worker has left its groups, and has waited for their other ranks.
        So the groups that it has not left fail, and those that others still use.

        Args:
            how: it ended, for the members of groups that it has not left.
        """
        if any(_uses(group, node) for group in self._groups):
            self.lose(node, f"{how or 'ended'} without closing its worker")
            return
        self._gone[node] = ""
        self._lose_rank(node)
        for group in [group for group in self._groups if node in group.ranks]:
            rank = group.ranks.index(node)
            if self._close_if_left(group) and rank in group.joined:
                why = f"rank {rank} ({node}) left the group, and its process has ended"
                self._fail_group(group, {node}, why, rank)

    def adapt(self) -> Operation[None]:
        """The network has changed: make the groups' sums on its live part.

        Groups whose ranks are permanently separated end, and their members receive the reason.
        """
        live = self._placements.live
        for group in list(self._groups):
            if why := live.separation(group.ranks):
                self._fail_group(group, frozenset(), why, None)
        moved = [group for group in self._groups if self._place(group)]
        yield from self._keys.learn_switches(live.switches, anew=True)
        yield from self._placements.update_switches(
            {prefix: plan for group in self._groups for prefix, plan in group.placed.items()},
            lambda switch: [m for g in self._groups for m in self._keys.for_switch(g, switch)],
        )
        for group in moved:
            self._tell_placement(group)

    def restore(self, reports: Sequence[WorkerReport], record: LaunchRecord) -> None:
        """Take over the recorded failures, and the groups that workers report."""
        self._failed = dict(record.failed)
        self._gone = dict(record.gone)
        for report in reports:
            self._failed.pop(report.node, None)  # another process has taken its place
            self._gone.pop(report.node, None)
            if report.failed is not None:
                self._failed[report.node] = report.failed
        for report in reports:
            for group in report.groups:
                try:
                    self._restore_place(report.node, group)
                except InnetError as error:  # the reports of other processes are used
                    _log.warning("%s reports an impossible group: %s", report.node, error)
        for node, why in self._failed.items():  # members may not know
            self._end_groups_of(node, why)
        for node in [node for node, why in self._gone.items() if not why]:
            self._end_groups_of(node, "left the group, and its process has ended")

    def _restore_place(self, node: str, report: GroupReport) -> None:
        key = self._key(report.name, report.number, node)
        failed = self._failed_groups.get(key)
        placed = self._plans.reported(report.placed, self._jobs.of(node).prefix, report.ranks)
        known = failed.group if failed else self._present(key) or self._restored(node, report)
        rank = known.rank_of(node)
        known.ready |= {rank} if report.ready else set()
        known.keep_moves(placed)
        known.left |= {rank} if report.left else set()
        if report.failure is not None and failed is None:
            why, culprit = report.failure
            if not known.has(culprit):
                raise ControlError(f"group {known.name!r} has no rank {culprit}")
            self._fail_group(known, frozenset(), why, culprit)  # the others may not know

    def _restored(self, node: str, report: GroupReport) -> Group:
        job = self._jobs.of(node)
        _require_members(job, report.name, report.ranks, node)
        self._require_few(job)
        plans = self._plans.reported(report.plans, job.prefix, report.ranks)
        if not plans:
            raise ControlError(f"group {report.name!r} has no plan")
        group = Group(
            report.name, job.name, report.algorithm, report.ranks, plans, {}, report.number
        )
        group.joined.update(range(len(group.ranks)))
        group.complete.update(group.joined)
        self._groups.append(group)
        return group

    def failures(self) -> dict[str, str]:
        """The reasons of failed nodes, in the order of the failures."""
        return dict(self._failed)

    def gone(self) -> dict[str, str]:
        """The nodes whose process has no successor, and how it failed; empty: it did not."""
        return dict(self._gone)

    def forget(self, job: Job) -> None:
        """The job has ended: drop its groups and failures."""
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
        _forget(self._failed_joins, job.hosts)
        _forget(self._disagreements, job.hosts)

    def present(self) -> tuple[Group, ...]:
        """All groups that have not ended."""
        return tuple(self._groups)

    def describe(self) -> list[dict[str, Any]]:
        """All groups, for status displays."""
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
        """The ranks and plans of each group: as planned, and as placed now."""
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

    def _key(self, name: str, number: int, node: str) -> GroupKey:
        """The key of a group of ``node``: other jobs may have groups of that name and number."""
        job = self._jobs.find(node)
        return "" if job is None else job.name, name, number

    def _present(self, key: GroupKey) -> Group | None:
        return next((group for group in self._groups if group.key == key), None)

    def _fail_left(self, key: GroupKey, node: str, heard: Sequence[Any] | None) -> FailedGroup:
        """End a group for the ranks that wait for ranks which have left."""
        group = self._present(key)
        if group is not None:
            group.rank_of(node)
        why, left = GroupFailure(*heard) if heard else GroupFailure("")
        if group is not None and left is not None and left in range(len(group.ranks)):
            group.left.add(left)
        if group is None or not group.left:
            raise ControlError(
                f"no rank of group {key[1]!r} has failed or left; there is none to go without. A "
                "rank that hangs can be given up: comm.expel(rank, why)"
            )
        rank = min(group.left)
        group.lost |= group.left
        if rank != left:
            why = f"rank {rank} ({group.ranks[rank]}) left the group"
        self._fail_group(group, (), why, rank)
        return self._failed_groups[group.key]

    def _succeed(self, founder: GroupKey, latest: Group) -> Operation[Group]:
        """Make the next group of the remaining ranks of ``latest``."""
        if latest in self._groups:
            rank = min(latest.lost)
            why = f"rank {rank} ({latest.ranks[rank]}) ended before the group had come about"
            self._fail_group(latest, (), why, rank)
        job = self._jobs.of(latest.ranks[0])
        successor = yield from self._create(job, founder[1], latest.algorithm, latest.survivors())
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

    def require_one_job(self, node: str, other: str) -> None:
        """Check that two nodes have ranks of the same job.

        Raises:
            ControlError: they have not.
        """
        job = self._jobs.of(node)
        if other not in job.hosts:
            raise ControlError(f"{other} has no rank of job {job.name}, which {node} has one of")

    def _require_few(self, job: Job) -> None:
        if sum(group.job == job.name for group in self._groups) >= _MAX_GROUPS_OF_JOB:
            raise ControlError(
                f"job {job.name} has {_MAX_GROUPS_OF_JOB} groups already. Close communicators that "
                "are not needed any more"
            )

    def _lose_rank(self, node: str) -> None:
        """Mark ``node`` as lost in the groups of its process, even if another process replaces it.

        A group that still forms waits for the new process, unless its ranks are survivors.
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
        for waiting in group.joined - group.complete - {rank}:
            self._failed_joins[group.name, group.ranks[waiting]] = GroupFailure(why, rank)
        self._remove(group)
        self._failed_groups[group.key] = FailedGroup(group, said)
        self._tell_members(group, but, "fail_group", **said)

    def _close_if_left(self, group: Group) -> list[int]:
        """The ranks that still use the group; without any, the group is over."""
        absent = {rank for rank, other in enumerate(group.ranks) if other in self._gone}
        using = group.ranks_but(group.left | absent)
        if not using:
            self._remove(group)
            self._tell_members(group, set(self._gone), "end_group")
        return using

    def _create(
        self, job: Job, name: str, algorithm: str, ranks: tuple[str, ...]
    ) -> Operation[Group]:
        load = self.load_beside(job.name)
        number, plans = self._plans.make(job.prefix, name, algorithm, ranks, load)
        placed = self._placements.place(plans)
        group = Group(name, job.name, algorithm, ranks, plans, placed, number, load=load)
        self._groups.append(group)
        yield from self._keys.learn_switches(self._placements.live.switches)
        try:
            silent = self._keys.silent
            keys_of = partial(self._keys.for_switch, group)
            for switch in (yield from self._placements.install(placed, keys_of, silent)):
                self._keys.give_up(switch)
            for switch in silent:
                self._give_keys(switch, [group])
        except Exception:
            self._remove(group)
            raise
        return group

    def _give_keys(self, switch: str, groups: Sequence[Group]) -> None:
        """Send a switch that no group waits for the keys of ``groups``."""
        messages = [key for group in groups for key in self._keys.for_switch(group, switch)]
        if messages:
            self._outbox.send(switch, messages, on_sent=partial(self._keys.on_given, switch))

    def _place(self, group: Group) -> bool:
        """Place the group's sums on the live network; whether they moved."""
        chosen = {**group.plans, **group.preferred}
        before, group.placed = group.placed, self._placements.place(chosen)
        return group.placed != before

    def _remove(self, group: Group) -> None:
        self._groups.remove(group)
        self._placements.remove(group.plans)

    def _require_paths(self, group: str, ranks: Sequence[str]) -> None:
        if why := self._placements.live.separation(ranks):
            raise ControlError(
                f"group {group!r} cannot be made: {why}. Launch the network again, or allow more "
                "restarts of switches (recovery.switch_restarts)."
            )

    def _require_alive(
        self, group: str, ranks: Sequence[str], joined: Set[int], asking: str
    ) -> None:
        for rank, node in enumerate(ranks):
            if rank in joined or node not in self._gone:
                continue
            if (failure := self._failed_joins.pop((group, asking), None)) is not None:
                raise RankFailed(failure.why, rank=failure.rank)
            why = self._gone[node] or f"ended without joining group {group!r}"
            raise ControlError(f"rank {rank} ({node}) {why}")

    def _tell_placement(self, group: Group) -> None:
        plans = _documents(group.placed)
        keys = self._keys.renew(group)
        for member in (group.ranks[rank] for rank in sorted(group.joined)):
            self._outbox.tell(
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
        self._outbox.tell(members, method, group=group.name, number=group.number, **parameters)


def _uses(group: Group, node: str) -> bool:
    """Whether the process of ``node`` has joined the group and not left it."""
    return any(group.ranks[rank] == node for rank in group.joined - group.left)


def _forget(untold: dict[tuple[str, str], Any], nodes: Collection[str]) -> None:
    """Drop the failures that ``nodes`` have not received, of all groups."""
    for key in [key for key in untold if key[1] in nodes]:
        del untold[key]


def _require_members(job: Job, group: str, ranks: Sequence[str], node: str) -> None:
    """Check that a group of ``ranks`` is of one job, and that ``node`` is among them."""
    if len(set(ranks)) != len(ranks) or node not in ranks:
        raise ControlError(
            f"group {group!r} is to have {', '.join(ranks)}; expected different hosts, and {node} "
            "among them"
        )
    if strangers := [node for node in ranks if node not in job.hosts]:
        raise ControlError(
            f"group {group!r} is to have {', '.join(strangers)}, which job {job.name} has not; its "
            f"hosts are {', '.join(job.hosts)}"
        )


def _documents(plans: Mapping[str, Plan]) -> dict[str, dict[str, Any]]:
    return {prefix: plan.to_dict() for prefix, plan in plans.items()}
