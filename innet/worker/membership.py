"""The groups of ranks that a worker's process is in."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from innet.backoff import Backoff
from innet.errors import (
    TIMEOUT_HINT,
    CollectiveError,
    ControlError,
    DeadlineExceeded,
    RankFailed,
)
from innet.node.messages import GroupFailure, GroupReport, job_of, named_rank, named_ranks
from innet.node.runtime import install_rules
from innet.plans import NO_LOAD, Load, Plan
from innet.telemetry.events import report
from innet.worker.controller_connection import ControllerConnection

if TYPE_CHECKING:
    from innet._native import _core
    from innet.security.credential_packets import CredentialOpener

_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.01
_ASK_WHO_LEFT_S = 1.0
"""When an ending rank asks who still uses its groups: messages that say so can be lost."""
_LONGEST_ASK_WHO_LEFT_S = 8.0
"""The pause doubles up to this one."""
_SAY_AFTER_S = 5.0

_log = logging.getLogger(__name__)

GroupKey = tuple[str, int]
"""The name and the number of a group."""


def _release_nothing() -> None:
    """No communicator has been made of the membership yet."""


def _ignore_placement(_plans: Mapping[str, Plan]) -> None:
    """No communicator fetches sums yet."""


@dataclass(eq=False)
class Membership:
    """One process's place in one group of ranks.

    The group's ranks are in the order that its members requested. Plans number them as *positions*,
    in the order of the topology's tree, so that every subtree is an interval. ``nodes`` here and
    ``ranks`` of a plan list the same nodes, and so map ranks to positions.

    Attributes:
        number: distinguishes the group from others of that name, at the same time, before and after
            it.
        plans: plan by name prefix of its values, such as ``/j1/g0.inc``, as they are placed now.
        algorithm: of its plans, as requested.
        made: :attr:`plans` as they were made for the whole network.
        load: what others used of the network then; all ranks are given the same.
        ready: this process answers for its names.
        failure: why the group cannot go on, if it cannot.
        heard: the failure that another rank passed on to an operation here: the controller may not
            know it yet.
        blamed: why an operation missed its deadline here, and the rank that did not answer.
        release: frees what the node keeps for the group, once nobody needs it any more.
        on_placed: receives :attr:`plans` with another placement, on a thread of the node's agent.
    """

    name: str
    number: int
    nodes: tuple[str, ...]
    rank: int
    plans: Mapping[str, Plan]
    algorithm: str = "auto"
    made: Mapping[str, Plan] = field(default_factory=dict)
    load: Load = NO_LOAD
    ready: bool = False
    failure: GroupFailure | None = None
    heard: GroupFailure | None = None
    blamed: GroupFailure | None = None
    release: Callable[[], None] = _release_nothing
    on_placed: Callable[[Mapping[str, Plan]], None] = _ignore_placement

    @property
    def key(self) -> GroupKey:
        """The name and the number of the group."""
        return self.name, self.number

    @property
    def job(self) -> str:
        """The job whose group it is."""
        return job_of(next(iter(self.plans)))

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.nodes)

    @property
    def positions(self) -> tuple[str, ...]:
        """The node of each position: what all the group's plans call their ranks."""
        return next(iter(self.plans.values())).ranks

    def report(self, left: bool) -> GroupReport:
        """The group for a controller that has started again; ``left``: this process left it."""
        return GroupReport(
            name=self.name,
            number=self.number,
            algorithm=self.algorithm,
            ranks=self.nodes,
            plans={prefix: plan.to_dict() for prefix, plan in self.made.items()},
            placed={
                prefix: plan.to_dict()
                for prefix, plan in self.plans.items()
                if plan != self.made.get(prefix)
            },
            ready=self.ready,
            left=left,
            failure=self.failure,
        )


@dataclass(frozen=True, slots=True)
class _Placement:
    """The places of a group's sums, and the keys that nodes need for them."""

    plans: Mapping[str, Plan]
    keys: str | None


class Memberships:
    """Joins and leaves groups, and carries out the controller's instructions. Thread-safe."""

    def __init__(
        self,
        node: _core.Node,
        host: str,
        ranks: tuple[str, ...],
        controller: ControllerConnection,
        credentials: CredentialOpener | None,
    ) -> None:
        """
        Args:
            credentials: opens the keys of groups; ``None`` where nodes have all keys already.
        """
        self._node = node
        self._host = host
        self._ranks = ranks
        self._controller = controller
        self._credentials = credentials
        self._lock = threading.Lock()
        self._all_left = threading.Condition(self._lock)
        self._current: dict[str, Membership] = {}
        self._leaving: dict[GroupKey, Membership] = {}
        # The controller's answer to `join` may arrive after its next messages about the group.
        self._early_failures: dict[GroupKey, GroupFailure] = {}
        self._early_placements: dict[GroupKey, _Placement] = {}

    def join(
        self, name: str, algorithm: str, nodes: Sequence[str] | None, timeout_s: float
    ) -> Membership:
        """Join the group ``name`` with the processes on ``nodes``, and wait until all have.

        Register the group's names then, and wait for the others once more (:meth:`await_ready`)
        before anything is asked of them.

        Args:
            name: of the group; groups without a common member may share one.
            algorithm: of its plans, as :func:`innet.init` takes it.
            nodes: the node of each rank of the group; every rank of the job by default.
            timeout_s: how long to wait for the others.

        Raises:
            CollectiveError: this rank is in a group of that name, or not among ``nodes``.
            DeadlineExceeded: some ranks did not come in time; the message names them.
            ControlError, PlanError: as the controller's ``join_group``.
        """
        ranks = self._ranks if nodes is None else tuple(nodes)
        rank = self._rank_among(ranks)
        if name in self._current:
            raise CollectiveError(
                f"{self._host} is in group {name!r} already. Close its communicator first, "
                "or give this group another name: innet.init(group=...)"
            )
        answer: dict[str, Any] = {}

        def missing() -> list[int]:
            answer.update(
                self._controller.ask(
                    "join_group",
                    group=name,
                    algorithm=algorithm,
                    ranks=list(ranks),
                    node=self._host,
                )
            )
            return list(answer["missing"])

        _poll(
            missing,
            ranks,
            timeout_s,
            f"did not join group {name!r}",
            "does every rank call innet.init() with the same arguments?",
        )
        return self._enter(name, ranks, rank, algorithm, answer)

    def shrink(self, failed: Membership, timeout_s: float) -> Membership:
        """Join the group of the survivors of ``failed``, which has been left.

        As :meth:`join`, and to be followed by the same. When one more rank fails meanwhile, call it
        again.

        Raises:
            DeadlineExceeded: some survivors did not come in time; the message names them.
            ControlError, PlanError: as the controller's ``shrink_group``.
        """
        answer: dict[str, Any] = {}
        survivors: list[str] = []

        def missing() -> list[int]:
            answer.update(self._ask(failed, "shrink_group"))
            survivors[:] = answer["ranks"]
            return list(answer["missing"])

        _poll(
            missing,
            survivors,
            timeout_s,
            f"survived the failure of group {failed.name!r}, and did not come to the next one",
            "does every rank call shrink() or recover()?",
        )
        rank = survivors.index(self._host)
        return self._enter(answer["name"], tuple(survivors), rank, failed.algorithm, answer)

    def await_ready(self, membership: Membership, timeout_s: float) -> None:
        """Report that this process answers for its names of the group; wait until every rank does.

        Raises:
            RankFailed: a rank of the group failed before all were ready.
            DeadlineExceeded: some ranks were not ready in time; the message names them.
            ControlError: a rank has ended or left instead.
        """

        def missing() -> list[int]:
            answer = self._ask(membership, "ready_group")
            membership.ready = True
            failure = answer["failure"]
            if failure is not None:
                raise RankFailed(
                    failure["why"],
                    operation=f"innet.init(group={membership.name!r})",
                    rank=failure["rank"],
                )
            return list(answer["missing"])

        _poll(
            missing,
            membership.nodes,
            timeout_s,
            f"joined group {membership.name!r} and did not get ready",
            "is its process stopped, or the machine overloaded?",
        )

    def leave(self, membership: Membership) -> None:
        """Report that this process needs nothing more of the group.

        The node serves the contributions of this rank until all have left: ranks may leave groups
        in different orders.
        """
        with self._lock:
            self._current.pop(membership.name, None)
            self._leaving[membership.key] = membership
        what = f"{self._host} has left group {membership.name!r}"
        report("group_left", what, group=membership.name, job=membership.job)
        if membership.failure is not None or not self._others_using([membership])[0]:
            self.on_over(*membership.key)

    def abandon(self, membership: Membership, why: str) -> None:
        """End the group in this process, with an error that says ``why``, and leave it at once."""
        self._end(membership, GroupFailure(why))
        self._others_using([membership])  # they need not wait for us, nor we for them
        self.leave(membership)

    def wait_until_all_left(self, linger_s: float) -> None:
        """Wait until the other ranks have left the groups that this one has left; release all.

        What this rank has sent is served meanwhile, for at most ``linger_s`` seconds.
        """
        began_s = time.monotonic()
        said = False
        pauses = Backoff(_ASK_WHO_LEFT_S, _LONGEST_ASK_WHO_LEFT_S, variation=0)
        while users := self._await_leaves(
            min(pauses.next_s(), linger_s - (time.monotonic() - began_s))
        ):
            waited_s = time.monotonic() - began_s
            if waited_s >= linger_s:
                _log.warning(
                    "this rank ends after %g s (collectives.linger_s); ranks %s have not left its "
                    "groups, and get an error where they need it",
                    linger_s,
                    ", ".join(users),
                )
                break
            if not said and waited_s >= _SAY_AFTER_S:
                said = True
                what = f"{self._host} has ended, and serves what it sent to {', '.join(users)}"
                _log.info("%s", what)
        for key in list(self._leaving):  # what works for a group in the background needs the node
            self.on_over(*key)

    def _await_leaves(self, pause_s: float) -> list[str]:
        """Wait a little until all groups are over; the hosts that still use one of them."""
        with self._all_left:
            if self._all_left.wait_for(lambda: not self._leaving, max(0.0, pause_s)):
                return []
            leaving = list(self._leaving.values())
        users: dict[str, None] = {}
        for membership, missing in zip(leaving, self._others_using(leaving), strict=True):
            users |= dict.fromkeys(membership.nodes[rank] for rank in missing)
            if not missing:
                self.on_over(*membership.key)
        return list(users)

    # Failures.

    def require_failed(self, membership: Membership) -> None:
        """Check that the group has failed, and report that this process continues.

        The controller may not know the failure that another rank passed on, so it is sent along.
        """
        self._ask(membership, "shrink_group", heard=membership.heard)

    def failure_of(self, membership: Membership) -> GroupFailure | None:
        """The failure that has ended the group; its members may not know it yet."""
        if membership.failure is None:
            answer = self._ask(membership, "group_failure")
            return None if answer is None else GroupFailure(answer["why"], answer["rank"])
        return membership.failure

    def fail(self, why: str, *, of_another: bool) -> list[tuple[str, int, str, int | None]]:
        """End all groups in this process, which cannot go on because of ``why``.

        Returns the causes that others receive in place of that, by group. ``of_another``: this
        process ends because another rank did.
        """
        with self._lock:
            memberships = [m for m in self._current.values() if m.failure is None]
        causes = []
        for membership in memberships:
            rank = membership.rank
            cause = GroupFailure(f"{named_rank(rank, self._host)} {why}", rank)
            if of_another and (told := membership.heard or membership.blamed) is not None:
                cause = told
                causes.append((*membership.key, *cause))
            self._end(membership, cause)
        return causes

    def disown(self, why: str) -> None:
        """Let all groups count as failed, and touch no node: this is a copy after a fork."""
        for membership in self._current.values():
            membership.failure = GroupFailure(why)

    # Messages of the controller.

    def on_failed(self, group: str, number: int, why: str, rank: int | None) -> None:
        """End the operations in progress of a failed group; ``rank`` failed, if one did."""
        with self._lock:
            membership = self._current_of(group, number)
            if membership is None:
                self._early_failures[group, number] = GroupFailure(why, rank)
        if membership is None:
            self.on_over(group, number)
            return
        what = f"group {group!r} failed: {why}"
        report("peer_lost", what, group=group, rank=rank, job=membership.job)
        self._end(membership, GroupFailure(why, rank))

    def on_over(self, group: str, number: int) -> None:
        """Free the memory of a group that all ranks have left."""
        with self._lock:
            membership = self._leaving.pop((group, number), None)
            self._all_left.notify_all()
        if membership is not None:
            for prefix in membership.plans:
                self._node.remove_group(prefix)
            membership.release()

    def on_placed(
        self, group: str, number: int, plans: Mapping[str, Plan], keys: str | None
    ) -> None:
        """Fetch the sums of a group from where they are made from now on."""
        placement = _Placement(plans, keys)
        with self._lock:
            membership = self._current_of(group, number)
            if membership is None:
                self._early_placements[group, number] = placement
        if membership is not None:
            self._place(membership, placement)

    def reports(self) -> list[GroupReport]:
        """The groups of this process, for a controller that has started again."""
        with self._lock:
            reports = [membership.report(left=False) for membership in self._current.values()]
            reports += [membership.report(left=True) for membership in self._leaving.values()]
            return reports

    # Steps of these.

    def _enter(
        self,
        name: str,
        nodes: tuple[str, ...],
        rank: int,
        algorithm: str,
        answer: Mapping[str, Any],
    ) -> Membership:
        plans = _plans_of(answer["plans"])
        made = _plans_of(answer["made"]) if answer["made"] is not None else plans
        load = NO_LOAD if answer["load"] is None else Load.model_validate(answer["load"])
        membership = Membership(name, answer["number"], nodes, rank, plans, algorithm, made, load)
        for prefix in plans:
            self._node.remove_group(prefix)
        self._take_keys(answer["keys"])
        self._install_rules(plans)
        with self._lock:
            self._current[name] = membership
            membership.failure = self._early_failures.pop(membership.key, None)
            placed = self._early_placements.pop(membership.key, None)
            _drop_group(self._early_failures, name)
            _drop_group(self._early_placements, name)
        if placed is not None:
            self._place(membership, placed)
        what = f"{self._host} is rank {rank} of {len(nodes)} in group {name!r}"
        report("group_joined", what, group=name, rank=rank, size=len(nodes), job=membership.job)
        return membership

    def _place(self, membership: Membership, placement: _Placement) -> None:
        self._take_keys(placement.keys)  # without them, answers from the new place are refused
        membership.plans = placement.plans
        self._install_rules(placement.plans)
        membership.on_placed(placement.plans)

    def _take_keys(self, packet: str | None) -> None:
        if self._credentials is not None and packet is not None:
            self._credentials.open(bytes.fromhex(packet)).install(self._node)

    def _install_rules(self, plans: Mapping[str, Plan]) -> None:
        for prefix, plan in plans.items():
            install_rules(self._node, prefix, plan.rules_for(self._host))

    def _end(self, membership: Membership, failure: GroupFailure) -> None:
        membership.failure = failure
        for prefix in membership.plans:
            self._node.abort(prefix, failure.why)

    def _current_of(self, group: str, number: int) -> Membership | None:
        membership = self._current.get(group)
        return membership if membership is not None and membership.number == number else None

    def _others_using(self, memberships: Sequence[Membership]) -> list[list[int]]:
        """Leave the groups; the ranks of each that still use it."""
        keys = [membership.key for membership in memberships]
        try:
            missing: list[list[int]] = self._controller.ask(
                "leave_groups", groups=keys, node=self._host
            )
        except ControlError as error:
            names = ", ".join(membership.name for membership in memberships)
            _log.info("left %s without the controller: %s", names, error)
            return [[] for _ in memberships]
        return missing

    def _ask(self, membership: Membership, method: str, **more: Any) -> Any:
        """The controller's answer to a question about this process and a group."""
        return self._controller.ask(
            method,
            group=membership.name,
            number=membership.number,
            node=self._host,
            **more,
        )

    def _rank_among(self, nodes: tuple[str, ...]) -> int:
        strangers = [node for node in nodes if node not in self._ranks]
        if strangers or len(set(nodes)) != len(nodes):
            raise CollectiveError(
                f"a group's nodes must be different hosts of this job; got {', '.join(nodes)}, "
                f"the job has {', '.join(self._ranks)}"
            )
        if self._host not in nodes:
            raise CollectiveError(
                f"this process runs on {self._host}, which is not among the group's nodes "
                f"({', '.join(nodes) or 'none'}); only their processes call init() for it"
            )
        return nodes.index(self._host)


def _plans_of(documents: Mapping[str, Any]) -> dict[str, Plan]:
    return {prefix: Plan.from_dict(plan) for prefix, plan in documents.items()}


def _drop_group(early: dict[GroupKey, Any], group: str) -> None:
    for stale in [key for key in early if key[0] == group]:
        del early[stale]


def _poll(
    missing: Callable[[], Sequence[int]],
    nodes: Sequence[str],
    timeout_s: float,
    did_what: str,
    question: str,
) -> None:
    """Poll the controller for missing ranks until none is missing.

    Raises:
        DeadlineExceeded: ``timeout_s`` passed; the message says who ``did_what``.
    """
    deadline_s = time.monotonic() + timeout_s
    backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, variation=0)
    while ranks := missing():
        if time.monotonic() > deadline_s:
            raise DeadlineExceeded(
                f"{named_ranks(ranks, nodes)} {did_what} within {timeout_s:g} s "
                f"({TIMEOUT_HINT}); {question}"
            )
        time.sleep(backoff.next_s())
