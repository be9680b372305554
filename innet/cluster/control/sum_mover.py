"""Moves the sums of running groups away from links and switches that other jobs have filled.

The expression of a group does not change, so the bits of its results do not. A group moves when
the estimates say so clearly, several times in a row, and not again for a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import JsonValue

from innet.cluster.control.actions import Compute, Operation, Outbox
from innet.cluster.control.group_plans import Group, GroupKey
from innet.cluster.control.groups import GroupRegistry
from innet.cluster.control.jobs import JobRegistry
from innet.cluster.control.load_watch import LoadWatch, Traffic
from innet.cluster.control.placements import Placements
from innet.cluster.control.pools import PoolRegistry
from innet.node.messages import NodeReading, producer_label
from innet.plans import NO_LOAD, Load, Plan, ProcessorCosts
from innet.plans.algorithms.inc import TreeSearch, able_switches
from innet.plans.cost import CostModel
from innet.settings import PlacementSettings
from innet.topology import Topology
from innet.topology.routes import Routes

_SIZE_BYTES = 1 << 20
"""Size of the allreduce whose time is compared."""
_NOTED_SHARE = 0.1
"""Least use of a link or processor by others for which other trees are compared."""


@dataclass(slots=True)
class _Review:
    """The results of the reviews of a group.

    Attributes:
        confirmed: reviews in a row in which other trees were faster.
        rests_until_s: no move before.
    """

    confirmed: int = 0
    rests_until_s: float = 0.0


_Search: TypeAlias = tuple[CostModel, TreeSearch]
_SearchKey: TypeAlias = tuple[GroupKey, str, frozenset[str]]
"""A group, the prefix of its sums, and the switches that may add."""


@dataclass(frozen=True, slots=True)
class _Case:
    """The sums of a group, for a comparison of placements.

    Attributes:
        made: the plan as made, whose expression they keep.
        placed: as they are placed now.
        load: what others use.
    """

    group: Group
    prefix: str
    made: Plan
    placed: Plan
    load: Load


class SumMover:
    """Knows the load of a network, and reviews the placement of its groups at intervals."""

    def __init__(
        self,
        topology: Topology,
        registries: tuple[JobRegistry, GroupRegistry, PoolRegistry],
        placements: Placements,
        settings: PlacementSettings,
        outbox: Outbox,
        *,
        processor: ProcessorCosts | None = None,
        counts_all: bool = False,
    ) -> None:
        """Nothing is known of the load yet.

        ``processor``: what the work of nodes costs; without it, links alone take time.
        ``counts_all``: readings count the traffic of programs that belong to no job, too.
        """
        self._topology = topology
        self._routes = Routes(topology)
        self._jobs, self._groups, self._pools = registries
        self._placements = placements
        self._settings = settings
        self._outbox = outbox
        self._processor = processor
        self._watch = LoadWatch(topology, settings.interval_s)
        self._counts_all = counts_all
        self._reviews: dict[GroupKey, _Review] = {}
        self._searches: dict[_SearchKey, _Search] = {}
        self._is_comparing = False
        self._next_s = 0.0

    def on_reading(self, node: str, reading: NodeReading) -> None:
        """A node reports its counters."""
        self._watch.on_reading(node, reading)

    def on_restored(self) -> None:
        """A controller has read from workers where the sums of groups are made.

        Sums that do not move are elsewhere because of a switch that was lost: they return with it.
        """
        if not self._settings.moves:
            for group in self._groups.present():
                group.preferred.clear()

    def begins_review(self, now_s: float) -> bool:
        """Whether it is time for the next :meth:`review`."""
        if now_s < self._next_s:
            return False
        self._next_s = now_s + self._settings.interval_s
        return True

    def load_beside(self, job: str | None = None) -> Load:
        """The load of all jobs but the named one; of a job that has not started, all of it."""
        return self._watch.load({}) if job is None else self._divided(job)[1]

    def _divided(self, job: str) -> tuple[Traffic, Load]:
        """Split the load into a job's own traffic and that of others."""
        if self._is_alone():
            return self._watch.traffic, NO_LOAD
        jobs = self._jobs.describe()
        prefix = next((known["prefix"] for known in jobs if known["name"] == job), None)
        own = self._traffic_of(job)
        return own, self._watch.load(own, prefix)

    def _is_alone(self) -> bool:
        """Whether all that nodes count is of one job."""
        others = len(self._jobs.describe()) > 1 or self._pools.describe()
        return not others and not self._counts_all

    def share_of(self, host: str) -> float:
        """The free share of the links to a host and its rack, in quarters, and at least one."""
        load, gate = self._watch.load({}), self._routes.gate(host)
        if gate is None:
            return 1.0
        uplinks = [
            max(load.link_share(self._topology, *ends) for ends in ((gate, peer), (peer, gate)))
            for peer in self._topology.links_of[gate]
            if peer not in self._topology.hosts
        ]
        own = (load.link_share(self._topology, *ends) for ends in ((gate, host), (host, gate)))
        used = max(*own, min(uplinks, default=0.0))
        return max(4 - int(used * 4), 1) / 4

    def describe(self) -> dict[str, Any]:
        """The load, what each job sends on each link, and the hosts that no path leads to."""
        jobs = [job["name"] for job in self._jobs.describe()]
        return {
            "load": self.load_beside().model_dump(),
            "out_of_reach": sorted(self._placements.live.out_of_reach),
            "jobs": {
                job: [[*link, bps] for link, bps in self._traffic_of(job).items()] for job in jobs
            },
        }

    def review(self) -> None:
        """Compare the trees of groups that others hold up, unless that is under way."""
        groups = self._groups.present()
        labels = {
            producer_label(rank, node): node for g in groups for rank, node in enumerate(g.ranks)
        }
        late = self._watch.take_late_labels()
        self._watch.on_late(labels[label] for label in late if label in labels)
        known = {group.key for group in groups}
        self._reviews = {key: found for key, found in self._reviews.items() if key in known}
        if self._is_comparing or not self._may_move():
            return
        movable = [(group, prefix) for group in groups if (prefix := _movable(group))]
        divided = {job: self._divided(job) for job in {group.job for group, _ in movable}}
        cases = []
        for group, prefix in movable:
            review = self._reviews.setdefault(group.key, _Review())
            own, load = divided[group.job]
            if own and (prefix in group.preferred or self._is_held_up(own, load)):
                cases.append(_Case(group, prefix, group.plans[prefix], group.placed[prefix], load))
            else:
                review.confirmed = 0
        if cases:
            self._is_comparing = True
            searches = {key: found for key, found in self._searches.items() if key[0] in known}
            self._searches = searches
            self._outbox.put(Compute(lambda: [self._better(case, searches) for case in cases]))

    def on_compared(
        self, found: Sequence[tuple[_Case, Plan | None]] | None, now_s: float
    ) -> Operation[None]:
        """Move the sums of groups for which a comparison has found better trees often enough."""
        self._is_comparing = False
        present = self._groups.present()
        moved = [
            case.group
            for case, better in found or ()
            if case.group in present
            and case.group.placed[case.prefix] is case.placed
            and self._may_move()
            and self._moves(case, better, now_s)
        ]
        if moved:
            yield from self._groups.adapt()

    def _may_move(self) -> bool:
        live = self._placements.live
        return self._settings.moves and not live.lost and not live.cut

    def _moves(self, case: _Case, better: Plan | None, now_s: float) -> bool:
        """Choose other trees for the sums of a group, if that is due."""
        group, prefix = case.group, case.prefix
        review = self._reviews.setdefault(group.key, _Review())
        review.confirmed = 0 if better is None else review.confirmed + 1
        if better is None or review.confirmed < self._settings.confirmations:
            return False
        if now_s < review.rests_until_s:
            return False
        self._reviews[group.key] = _Review(0, now_s + self._settings.pause_s)
        self._report(group, case.placed, better)
        if _same_places(better, case.made):
            group.preferred.pop(prefix, None)
        else:
            group.preferred[prefix] = better
        return True

    def _is_held_up(self, own: Traffic, load: Load) -> bool:
        """Whether others use much of a link or node of the job's sums: a first, quick look."""
        return any(load.link_share(self._topology, *link) > _NOTED_SHARE for link in own) or any(
            load.processor.get(node, 0.0) > _NOTED_SHARE or not load.has_slots(node)
            for link in own
            for node in link
        )

    def _better(
        self, case: _Case, searches: dict[_SearchKey, _Search]
    ) -> tuple[_Case, Plan | None]:
        """Trees of the same expression that are faster than the present ones by enough.

        It runs on its own thread, and reads only immutable state.
        """
        able = able_switches(self._topology, case.load)
        key = case.group.key, case.prefix, able
        if key not in searches:
            model = CostModel(self._topology, self._processor, NO_LOAD, self._routes)
            searches[key] = model, TreeSearch(model, case.made.ranks, able, like=case.made)
        idle, search = searches[key]
        model = idle.beside(case.load)
        fastest = search.fastest(model)
        if fastest is None:
            return case, None
        now_s = model.estimate(case.placed, _SIZE_BYTES).total_s
        if fastest.cost.total_s >= now_s * (1 - self._settings.least_gain):
            return case, None
        return case, fastest.plan()

    def _traffic_of(self, job: str) -> Traffic:
        plans = [
            min(group.placed.values(), key=lambda plan: plan.algorithm != "inc")
            for group in self._groups.present()
            if group.job == job
        ]
        return self._watch.own_traffic(plans, self._routes)

    def _report(self, group: Group, before: Plan, after: Plan) -> None:
        roots: list[JsonValue] = [
            ", ".join(root.node for root in plan.roots) for plan in (before, after)
        ]
        what = (
            f"the sums of group {group.name!r} of job {group.job} move from {roots[0]} to "
            f"{roots[1]}, which others use less"
        )
        self._outbox.report("sums_moved", what, group=group.name, job=group.job, roots=roots)


def _same_places(plan: Plan, other: Plan) -> bool:
    return (plan.roots, set(plan.rules)) == (other.roots, set(other.rules))


def _movable(group: Group) -> str | None:
    """The prefix of the sums that switches make for a group, if nobody has said which ones."""
    if ":" in group.algorithm or len(group.joined) < len(group.ranks):
        return None
    return next((p for p, plan in group.plans.items() if plan.algorithm == "inc"), None)
