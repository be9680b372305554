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
from collections.abc import Callable, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

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
    """

    name: str
    algorithm: str
    ranks: tuple[str, ...]
    plans: dict[str, Plan]
    number: int
    joined: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)

    def ranks_but(self, others: set[int]) -> list[int]:
        """All ranks except these."""
        return sorted(set(range(len(self.ranks))) - others)


class Controller:
    """Answers ``join_group``, ``leave_group``, ``fail`` and ``groups`` on a control socket."""

    def __init__(
        self, topology: Topology, job: str, socket_path: Path, connect: ConnectToNode
    ) -> None:
        self._topology = topology
        self._job = job
        self._job_number = 1
        self._connect = connect
        self._lock = threading.RLock()
        self._groups: list[Group] = []
        self._made: Counter[str] = Counter()
        self._gone: dict[str, str] = {}
        self._ended: set[str] = set()
        self._lost_switches: dict[str, str] = {}
        self._messengers = ThreadPoolExecutor(_MESSENGERS, "controller-messenger")
        self._messages: set[Future[None]] = set()
        self._server = ControlServer(
            socket_path,
            {
                "join_group": self.join_group,
                "leave_group": self.leave_group,
                "fail": self.fail,
                "groups": self.groups,
            },
            who="the controller",
        )

    def join_group(
        self, group: str, algorithm: str, ranks: Sequence[str], node: str
    ) -> dict[str, Any]:
        """The process on ``node`` is there; the first to come has the plan made and installed.

        The answer tells which ranks are ``missing``; a rank asks again until none is. Its
        ``number`` tells the group from others of the same name: before it, after it, or of other
        nodes at the same time.

        Raises:
            PlanError: the algorithm is unknown or does not fit.
            ControlError: ranks disagree about the group, a switch does not answer, the rank has
                left and others have not, or a node that the group needs is gone.
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
            rank = known.ranks.index(node)
            if rank in known.left:
                raise ControlError(
                    f"rank {rank} has left group {group!r}, which other ranks still use. Close its "
                    "communicator on every rank, or give the next group another name."
                )
            self._require_alive(group, ranks, known.joined)
            known.joined.add(rank)
            return {
                "number": known.number,
                "missing": known.ranks_but(known.joined),
                "plans": {prefix: plan.to_dict() for prefix, plan in known.plans.items()},
            }

    def leave_group(self, group: str, number: int, node: str) -> dict[str, Any]:
        """``node`` needs nothing more of the group; it stays until no rank is ``missing``.

        Ranks whose node is gone are not waited for. Whoever left first may have joined the next
        group of that name already, when the others ask about this one again.
        """
        with self._lock:
            known = next((g for g in self._groups if g.name == group and g.number == number), None)
            if known is None:
                return {"missing": []}
            known.left.add(known.ranks.index(node))
            absent = {rank for rank, other in enumerate(known.ranks) if self._is_gone(other)}
            missing = known.ranks_but(known.left | absent)
            if not missing:
                self._remove(known)
            return {"missing": missing}

    def fail(self, node: str, why: str) -> None:
        """``node`` can go on no longer: its groups end, and their members hear ``why``."""
        with self._lock:
            if node in self._gone:
                return
            self._gone[node] = why
            for group in [group for group in self._groups if node in group.ranks]:
                rank = group.ranks.index(node)
                for other in group.ranks:
                    if not self._is_gone(other):
                        self._send(self._tell, other, group, f"rank {rank} ({node}) {why}", rank)
                self._remove(group)

    def failures(self) -> list[str]:
        """The nodes that failed in this job, the first to fail at the beginning."""
        with self._lock:
            return list(self._gone)

    def end(self, node: str) -> None:
        """The process of ``node`` has ended as it should; nobody waits for it any more."""
        with self._lock:
            self._ended.add(node)

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
            self._gone.clear()
            self._ended.clear()
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
        self._messengers.shutdown()

    def _group_of(self, name: str, node: str) -> Group | None:
        return next((g for g in self._groups if g.name == name and node in g.ranks), None)

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
            if node in self._gone:
                raise ControlError(f"rank {rank} ({node}) {self._gone[node]}")
            if node in self._ended and rank not in joined:
                raise ControlError(f"rank {rank} ({node}) ended without joining group {group!r}")

    def _is_gone(self, node: str) -> bool:
        return node in self._gone or node in self._ended

    def _tell(self, node: str, group: Group, why: str, rank: int) -> None:
        try:
            with self._connect(node) as client:
                client.ask(
                    "fail_group",
                    timeout_s=_TELL_TIMEOUT_S,
                    group=group.name,
                    number=group.number,
                    why=why,
                    rank=rank,
                )
        except ControlError as error:
            _log.info("%s could not be told that %s: %s", node, why, error)

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
