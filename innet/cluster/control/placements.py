"""The live part of a network, and its switches' state: jobs, pools, rules of sums, and routes.

Switches may die and return, links may be cut; :class:`Placements` keeps the switches up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from innet.cluster.control.actions import (
    REQUEST_TIMEOUT_S,
    Deliver,
    Message,
    Operation,
    Outbox,
    Outcomes,
    first_error,
)
from innet.errors import NoAnswer
from innet.node.messages import JobMessage, PoolMessage, RuleMessage
from innet.node.routing import NextHops, next_hops
from innet.plans import Plan, place_without
from innet.topology import Topology
from innet.topology.routes import Ends, Routes, ends_of

Part: TypeAlias = str | Ends
"""A switch by its name, or a link by its ends."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The cause of a switch's or a link's loss, and whether to wait for its return."""

    why: str
    returns: bool


def silence_of(part: Part, time_s: float) -> str:
    """Why a part counts as lost that has been silent for ``time_s``."""
    if isinstance(part, str):
        return f"{part} has not answered for {time_s:g} s"
    return f"{'--'.join(part)} has carried nothing for {time_s:g} s"


class LiveTopology:
    """The live nodes, the routes between them, and the nodes at which sums are made.

    Immutable: :meth:`without` and :meth:`with_again` give the next state.
    """

    def __init__(self, topology: Topology, lost: Mapping[str, Loss] | None = None) -> None:
        """The network without the switches that are ``lost``."""
        self._topology = topology
        self._lost: dict[Part, Loss] = {}
        self._lost.update(lost or {})

    @property
    def lost(self) -> tuple[str, ...]:
        """The lost switches."""
        return tuple(part for part in self._lost if isinstance(part, str))

    @property
    def cut(self) -> tuple[Ends, ...]:
        """The lost links."""
        return tuple(part for part in self._lost if not isinstance(part, str))

    @property
    def switches(self) -> tuple[str, ...]:
        """The live switches."""
        return tuple(s for s in self._topology.switches if s not in self._lost)

    def without(self, part: Part, loss: Loss) -> LiveTopology:
        """The network without ``part`` as well."""
        return self._with_lost({**self._lost, part: loss})

    def with_again(self, part: Part) -> LiveTopology:
        """The network with ``part`` again."""
        return self._with_lost({lost: why for lost, why in self._lost.items() if lost != part})

    @cached_property
    def next_hops(self) -> NextHops:
        """At every live node, the face towards each node that it can reach."""
        return next_hops(self._topology, self.lost, self.cut)

    def distance(self, node: str, towards: str) -> int:
        """The distance of two nodes over the live network; see :meth:`Routes.distance`."""
        return self._routes.distance(node, towards)

    @cached_property
    def _routes(self) -> Routes:
        return Routes(self._topology, self.lost, self.cut)

    def place(self, plan: Plan) -> Plan:
        """``plan``, made for the whole network, with its sums on live nodes."""
        return place_without(plan, self._topology, self.lost, self.cut)

    @cached_property
    def out_of_reach(self) -> frozenset[str]:
        """The hosts that no path joins to most others, while switches or links are lost."""
        if not self._lost:
            return frozenset()
        apart, largest = list(filter(self._has_link, self._topology.hosts)), set[str]()
        while len(apart) > len(largest):
            part = {host for host in apart if self._routes.reaches(host, apart[0])}
            largest = max(largest, part, key=len)
            apart = [host for host in apart if host not in part]
        return frozenset(self._topology.hosts) - largest

    def _has_link(self, host: str) -> bool:
        peers = self._topology.links_of[host]
        return any(p not in self._lost and ends_of(host, p) not in self._lost for p in peers)

    def separation(self, nodes: Sequence[str]) -> str | None:
        """Why some of ``nodes`` can never reach the others; ``None`` when they can.

        Also ``None`` while a lost switch or link between them is expected back.
        """
        given_up = self._with_lost(
            {part: why for part, why in self._lost.items() if not why.returns}
        )
        if not given_up._lost:
            return None
        routes = Routes(self._topology, given_up.lost, given_up.cut)
        apart = [node for node in nodes[1:] if not routes.reaches(node, nodes[0])]
        if not apart:
            return None
        whys = "; ".join(
            f"{'switch' if isinstance(part, str) else 'the link'} {loss.why}"
            for part, loss in given_up._lost.items()
        )
        return f"{whys}; no other path leads from {nodes[0]} to {', '.join(apart)}"

    def _with_lost(self, lost: dict[Part, Loss]) -> LiveTopology:
        live = LiveTopology(self._topology)
        live._lost = lost
        return live


MessagesTo = Callable[[str], Sequence[Message]]
"""The messages for a switch."""


class Placements:
    """Installs jobs, pools, rules and routes on the switches of a network, and removes them."""

    def __init__(self, live: LiveTopology, outbox: Outbox) -> None:
        self.live = live
        """The network as it is; after replacing it, call :meth:`update_switches`."""
        self._outbox = outbox
        self._jobs: dict[str, JobMessage] = {}
        self._pools: tuple[PoolMessage, ...] = ()

    def open_job(self, job: JobMessage) -> Operation[None]:
        """Have all switches serve a job, before any of its rules."""
        self.restore_job(job)
        outcomes = yield self._to_all([("install_job", job.model_dump())], REQUEST_TIMEOUT_S)
        _raise_first(outcomes)

    def restore_job(self, job: JobMessage) -> None:
        """The switches are to serve this job."""
        self._jobs[job.prefix] = job

    def close_job(self, prefix: str) -> Operation[None]:
        """Remove all that the switches have of a job, and wait until they have."""
        self._jobs.pop(prefix, None)
        yield self._to_all([("remove_job", {"prefix": prefix})])

    def open_pools(self, pools: Sequence[PoolMessage]) -> Operation[None]:
        """Have all switches serve ``pools`` and no others, and wait until they do.

        A switch that does not answer is left as it is: it is brought up to date when it returns.
        """
        self.restore_pools(pools)
        outcomes = yield self._to_all([self._set_pools()])
        _raise_first(outcomes, but=NoAnswer)

    def close_pools(self, pools: Sequence[PoolMessage]) -> Operation[None]:
        """Make all switches that answer serve ``pools`` and no others."""
        self.restore_pools(pools)
        yield self._to_all([self._set_pools()])

    def drop_cached(self, prefix: str) -> Operation[None]:
        """Empty the caches of all switches of a pool's names, and wait until they are.

        A switch that does not answer is left as it is: its cache is empty when it returns.
        """
        outcomes = yield self._to_all([("drop_cached", {"prefix": prefix})])
        _raise_first(outcomes, but=NoAnswer)

    def restore_pools(self, pools: Sequence[PoolMessage]) -> None:
        """The switches are to serve these pools."""
        self._pools = tuple(pools)

    def place(self, plans: Mapping[str, Plan]) -> dict[str, Plan]:
        """``plans``, made for the whole network, with their sums on live nodes."""
        return {prefix: self.live.place(plan) for prefix, plan in plans.items()}

    def install(
        self, plans: Mapping[str, Plan], keys: MessagesTo, unawaited: Collection[str]
    ) -> Operation[list[str]]:
        """Install the rules of ``plans``, and a group's ``keys`` on all switches.

        Switches without rules only forward. The result has those that did not take the keys;
        the ``unawaited`` are not given any.
        """
        rules = {switch: _rules(plans, switch) for switch in self.live.switches}
        needed = {switch: [*keys(switch), *found] for switch, found in rules.items() if found}
        outcomes = yield Deliver(needed, REQUEST_TIMEOUT_S)
        _raise_first(outcomes)
        others = rules.keys() - needed.keys() - set(unawaited)
        outcomes = yield Deliver({switch: keys(switch) for switch in rules if switch in others})
        return [switch for switch, found in outcomes.items() if first_error(found) is not None]

    def update_switches(self, plans: Mapping[str, Plan], keys: MessagesTo) -> Operation[None]:
        """Give every live switch jobs, pools, routes, groups' keys and the rules of ``plans``.

        A switch that does not answer is left as it is: it will be lost too, or return.
        """
        hops = self.live.next_hops
        yield Deliver(
            {
                switch: [
                    *(("install_job", job.model_dump()) for job in self._jobs.values()),
                    self._set_pools(),
                    ("set_routes", {"routes": dict(hops[switch])}),
                    *keys(switch),
                    *_rules(plans, switch),
                ]
                for switch in self.live.switches
            }
        )

    def remove(self, plans: Mapping[str, Plan]) -> None:
        """Remove the rules of ``plans`` from all switches."""
        for prefix in plans:
            self._outbox.tell(self.live.switches, "remove_group", group=prefix)

    def _set_pools(self) -> Message:
        return "set_pools", {"pools": [pool.model_dump() for pool in self._pools]}

    def _to_all(self, messages: Sequence[Message], timeout_s: float | None = None) -> Deliver:
        to_each = dict.fromkeys(self.live.switches, messages)
        return Deliver(to_each) if timeout_s is None else Deliver(to_each, timeout_s)


def _raise_first(outcomes: Outcomes, but: type[Exception] | None = None) -> None:
    for found in outcomes.values():
        error = first_error(found)
        if error is not None and (but is None or not isinstance(error, but)):
            raise error


def _rules(plans: Mapping[str, Plan], switch: str) -> list[Message]:
    return [
        ("install_group", {"group": prefix, "rules": rules})
        for prefix, plan in plans.items()
        if (rules := rule_messages(plan, switch))
    ]


def rule_messages(plan: Plan, node: str) -> list[dict[str, Any]]:
    """The rules of ``plan`` for ``node`` as control messages."""
    return [
        RuleMessage(
            interval=str(rule.interval),
            operands=[(str(operand.interval), operand.node) for operand in rule.operands],
            primary=rule.primary,
            ahead_to=list(rule.ahead_to),
        ).model_dump()
        for rule in plan.rules_for(node)
    ]
