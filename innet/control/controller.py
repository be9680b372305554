"""The controller of a run: SHArP's aggregation manager.

It knows the topology, makes the plan of each group, installs its rules on the switches, lets ranks
meet (at the start and at the end of a group) and tells everybody when one of them is gone.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from innet.control.attendance import Attendance
from innet.control.client import ControlClient
from innet.control.protocol import RuleMessage
from innet.control.server import ControlServer
from innet.errors import ControlError
from innet.plans import Plan, PlanChooser, make_plan, rank_order
from innet.topology import Topology

ConnectToNode = Callable[[str], ControlClient]

_TELL_TIMEOUT_S = 2.0
_MESSENGERS = 8
"""Nodes that are told something at once."""
_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,15}")
"""Names of groups that go into name components as they are; they leave room for the rest."""

_log = logging.getLogger(__name__)


@dataclass
class Group:
    """A group of ranks and its plans, one per algorithm it may use.

    Attributes:
        name: as users know it.
        algorithm: as asked for; ``auto`` has several plans.
        ranks: node of each rank.
        plans: plan by name prefix of its rules, such as ``/j1/g0.inc``.
        number: counts the groups of that name in the job, from 1.
        joined: the ranks that have come.
        ready: those of them that answer for their names.
        left: those that need nothing more.
    """

    name: str
    algorithm: str
    ranks: tuple[str, ...]
    plans: dict[str, Plan]
    number: int
    joined: set[int] = field(default_factory=set)
    ready: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)

    def ranks_but(self, others: set[int]) -> list[int]:
        """All ranks except these."""
        return sorted(set(range(len(self.ranks))) - others)


class Controller:
    """Answers a job's workers on a control socket, and its launcher by method calls.

    Methods for workers: ``attach``, ``detach``, ``present``, ``join_group``, ``ready_group``,
    ``leave_group``, ``fail``, ``ended``; for displays: ``groups``.
    """

    def __init__(
        self,
        topology: Topology,
        job: str,
        socket_path: Path,
        connect: ConnectToNode,
        is_supervised: Callable[[int], bool] = lambda _pid: False,
    ) -> None:
        """``is_supervised`` tells whose end somebody else reports: the launcher's own children."""
        self._topology = topology
        self._job = job
        self._job_number = 1
        self._connect = connect
        self._is_supervised = is_supervised
        self._lock = threading.RLock()
        self._groups: list[Group] = []
        self._made: Counter[str] = Counter()
        self._failed: dict[str, str] = {}
        self._failed_groups: dict[tuple[str, int], dict[str, Any]] = {}
        self._gone: dict[str, str] = {}
        self._lost_switches: dict[str, str] = {}
        self._messengers = ThreadPoolExecutor(_MESSENGERS, "controller-messenger")
        self._messages: set[Future[None]] = set()
        self._attendance = Attendance(self._process_ended)
        self._server = ControlServer(
            socket_path,
            {
                "attach": self.attach,
                "detach": self.detach,
                "present": self.present,
                "ended": self.ended,
                "join_group": self.join_group,
                "ready_group": self.ready_group,
                "leave_group": self.leave_group,
                "fail": self.fail_incarnation,
                "groups": self.groups,
            },
            who="the controller",
        )

    def attach(self, node: str, pid: int) -> int:
        """Process ``pid`` stands for ``node`` from now on; its incarnation.

        What an earlier process of the node was in ends, and the node may join groups again.
        """
        with self._lock:
            self._end_groups_of(node, "was started anew")
            self._failed.pop(node, None)
            self._gone.pop(node, None)
            return self._attendance.attach(node, pid)

    def detach(self, node: str, incarnation: int) -> None:
        """That process has closed its worker, and has left its groups."""
        self._attendance.detach(node, incarnation)

    def present(self) -> list[str]:
        """The nodes with a worker that has not failed."""
        with self._lock:
            return [node for node in self._attendance.present() if node not in self._failed]

    def ended(self) -> list[str]:
        """The nodes whose process has ended as it should, and has no successor."""
        with self._lock:
            return [node for node, why in self._gone.items() if not why]

    def join_group(
        self, group: str, algorithm: str, ranks: Sequence[str], node: str
    ) -> dict[str, Any]:
        """The process on ``node`` is there; the first to come has the plan made and installed.

        The answer tells which ranks are ``missing``; a rank asks again until none is, registers
        its names, and says so by :meth:`ready_group`. The ``number`` tells the group from others
        of the same name: before it, after it, or of other nodes at the same time.

        Raises:
            PlanError: the algorithm is unknown or does not fit.
            ControlError: ranks disagree about the group, a switch does not answer, or a node that
                the group needs is gone.
        """
        with self._lock:
            known = self._group_of(group, node)
            if known is None:
                self._require_alive(group, ranks, frozenset())
                known = self._create(group, algorithm, tuple(ranks))
            elif (known.algorithm, known.ranks) != (algorithm, tuple(ranks)):
                raise ControlError(
                    f"{node} joins group {group!r} as {algorithm} over {list(ranks)}, others "
                    f"as {known.algorithm} over {list(known.ranks)}; call innet.init() with the "
                    "same arguments on every rank"
                )
            self._require_alive(group, ranks, known.joined)
            known.joined.add(known.ranks.index(node))
            return {
                "number": known.number,
                "missing": known.ranks_but(known.joined),
                "plans": {prefix: plan.to_dict() for prefix, plan in known.plans.items()},
            }

    def ready_group(self, group: str, number: int, node: str) -> dict[str, Any]:
        """``node`` answers for all its names of the group; others that do not are ``missing``.

        A rank asks again until none is: an Interest that came to a host before its names are
        registered would be refused there. ``failure`` is what :meth:`fail` told the members, if
        one has failed meanwhile, and else ``None``.

        Raises:
            ControlError: a node that is missing is gone or has left, or all have left the group.
        """
        with self._lock:
            failure = self._failed_groups.get((group, number))
            if failure is not None:
                return {"missing": [], "failure": failure}
            known = self._numbered(group, number)
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
            return {"missing": known.ranks_but(known.ready), "failure": None}

    def leave_group(self, group: str, number: int, node: str) -> dict[str, Any]:
        """``node`` needs nothing more of the group; others that are not ``missing`` either.

        When none is, the group is over, and all its members hear so. Ranks whose node is gone are
        not waited for.
        """
        with self._lock:
            known = self._numbered(group, number)
            if known is None:
                return {"missing": []}
            known.left.add(known.ranks.index(node))
            return {"missing": self._close_if_left(known)}

    def fail_incarnation(self, node: str, incarnation: int, why: str) -> None:
        """The process that stands for ``node`` can go on no longer, and says so itself."""
        with self._lock:
            if self._attendance.is_current(node, incarnation):
                self.fail(node, why)

    def fail(self, node: str, why: str) -> None:
        """The process on ``node`` has failed: its groups end, and their members hear ``why``.

        Groups that it had not joined yet wait for another process on that node.
        """
        with self._lock:
            if node not in self._failed:
                self._failed[node] = why
                self._end_groups_of(node, why)

    def lose(self, node: str, why: str) -> None:
        """``node`` has failed, and no other process will come for it."""
        with self._lock:
            self.fail(node, why)
            self._attendance.kill(node)  # whose parent is gone
            self._gone[node] = self._failed[node]

    def end(self, node: str) -> None:
        """The process of ``node`` has ended as it should; nobody waits for it any more."""
        with self._lock:
            self._gone[node] = ""
            for group in [group for group in self._groups if node in group.ranks]:
                self._close_if_left(group)

    def failures(self) -> list[str]:
        """The nodes that failed in this job, the first to fail at the beginning."""
        with self._lock:
            return list(self._failed)

    def lose_switch(self, switch: str, why: str) -> None:
        """``switch`` has died; groups that need it are refused from now on.

        It is called in the event loop, and so does not wait for the lock, which is held while
        switches are asked.
        """
        self._lost_switches[switch] = why

    def forget(self) -> None:
        """A job is over: drop its groups, and who failed in it.

        The next job's names are new ones: caches on the way may still hold data of this job's.
        """
        with self._lock:
            self._job_number += 1
            for group in list(self._groups):
                self._remove(group)
            self._made.clear()
            self._failed.clear()
            self._failed_groups.clear()
            self._gone.clear()
        self._attendance.kill_all()  # what a worker started may have outlived it
        wait(set(self._messages))

    def groups(self) -> list[dict[str, Any]]:
        """The groups there are, for status displays."""
        with self._lock:
            return [
                {
                    "name": group.name,
                    "algorithm": group.algorithm,
                    "ranks": list(group.ranks),
                    "joined": sorted(group.joined),
                }
                for group in self._groups
            ]

    def close(self) -> None:
        """Stop answering."""
        self._server.close()
        self._attendance.close()
        self._messengers.shutdown()

    def _group_of(self, name: str, node: str) -> Group | None:
        """The group of that name that ``node`` may join or has joined, and not left."""
        for group in self._groups:
            members = group.ranks if group.name == name else ()
            if node in members and members.index(node) not in group.left:
                return group
        return None

    def _numbered(self, name: str, number: int) -> Group | None:
        return next((g for g in self._groups if g.name == name and g.number == number), None)

    def _end_groups_of(self, node: str, why: str) -> None:
        for group in list(self._groups):
            if node in group.ranks and (rank := group.ranks.index(node)) in group.joined:
                said = {"why": f"rank {rank} ({node}) {why}", "rank": rank}
                self._remove(group)
                self._failed_groups[group.name, group.number] = said
                self._tell_members(group, {node}, "fail_group", **said)

    def _close_if_left(self, group: Group) -> list[int]:
        """The ranks that still use the group; when there are none, it is over."""
        absent = {rank for rank, other in enumerate(group.ranks) if other in self._gone}
        using = group.ranks_but(group.left | absent)
        if not using:
            self._remove(group)
            self._tell_members(group, set(self._gone), "end_group")
        return using

    def _process_ended(self, node: str, incarnation: int, pid: int) -> None:
        if self._is_supervised(pid):
            return
        with self._lock:
            # The watch is a thread of its own: a successor may have attached before it says so.
            if node not in self._attendance.present():
                self.fail(node, f"ended without closing its worker (process {pid})")

    def _create(self, name: str, algorithm: str, ranks: tuple[str, ...]) -> Group:
        plans = self._make_plans(algorithm, rank_order(self._topology, ranks))
        label = _label(name)
        self._made[label] += 1
        number = self._made[label]
        prefixed = {self._prefix(label, base, number): plan for base, plan in plans.items()}
        group = Group(name, algorithm, ranks, prefixed, number)
        self._groups.append(group)
        try:
            for prefix, plan in prefixed.items():
                self._install(prefix, plan)
        except ControlError:
            self._remove(group)
            raise
        return group

    def _make_plans(self, algorithm: str, positions: tuple[str, ...]) -> dict[str, Plan]:
        if algorithm == "auto":
            return dict(PlanChooser(self._topology, positions).plans)
        base, _, options = algorithm.partition(":")
        return {base: make_plan(base, self._topology, positions, **plan_options(options))}

    def _prefix(self, label: str, variant: str, number: int) -> str:
        """The plan's name prefix: a new one each time, for caches may hold what the last meant."""
        again = f".{number}" if number > 1 else ""
        return f"/{self._job}{self._job_number}/{label}.{variant}{again}"

    def _install(self, prefix: str, plan: Plan) -> None:
        for switch in self._topology.switches:
            rules = rule_messages(plan, switch)
            if rules:
                self._require_switch(switch, plan)
                with self._connect(switch) as client:
                    client.ask("install_group", group=prefix, rules=rules)

    def _remove(self, group: Group) -> None:
        self._groups.remove(group)
        for prefix, plan in group.plans.items():
            for switch in self._topology.switches:
                if plan.rules_for(switch) and switch not in self._lost_switches:
                    self._send(self._remove_rules, switch, prefix)

    def _send(self, message: Callable[..., None], *arguments: Any) -> None:
        """Carry a message to a node in the background: nobody waits for one that is busy."""
        sent = self._messengers.submit(message, *arguments)
        self._messages.add(sent)
        sent.add_done_callback(self._messages.discard)

    def _remove_rules(self, switch: str, prefix: str) -> None:
        try:
            with self._connect(switch) as client:
                client.ask("remove_group", group=prefix)
        except ControlError as error:
            _log.warning("the rules of %s stay on %s: %s", prefix, switch, error)

    def _require_switch(self, switch: str, plan: Plan) -> None:
        if switch in self._lost_switches:
            raise ControlError(
                f"switch {self._lost_switches[switch]}, and the {plan.algorithm} plan needs it. "
                "Launch the network again."
            )

    def _require_alive(self, group: str, ranks: Sequence[str], joined: Set[int]) -> None:
        for rank, node in enumerate(ranks):
            if rank in joined or node not in self._gone:
                continue
            why = self._gone[node] or f"ended without joining group {group!r}"
            raise ControlError(f"rank {rank} ({node}) {why}")

    def _tell_members(
        self, group: Group, but: Collection[str], method: str, **parameters: Any
    ) -> None:
        for rank in group.joined:
            if group.ranks[rank] not in but:
                self._send(self._tell, group.ranks[rank], group, method, parameters)

    def _tell(self, node: str, group: Group, method: str, parameters: dict[str, Any]) -> None:
        try:
            with self._connect(node) as client:
                client.ask(
                    method,
                    timeout_s=_TELL_TIMEOUT_S,
                    group=group.name,
                    number=group.number,
                    **parameters,
                )
        except ControlError as error:
            _log.info("%s heard no %s of group %s: %s", node, method, group.name, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


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


def _label(group: str) -> str:
    """The group's name as part of a name component: as it is when it is short and plain."""
    if _PLAIN_NAME.fullmatch(group):
        return group
    return hashlib.blake2s(group.encode(), digest_size=6).hexdigest()


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
