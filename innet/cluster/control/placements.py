"""What the live switches have: jobs, pools, rules of sums, and routes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from innet.cluster.control.actions import (
    REQUEST_TIMEOUT_S,
    Deliver,
    Message,
    Operation,
    Outbox,
    Outcomes,
    first_error,
)
from innet.cluster.control.live_topology import LiveTopology
from innet.errors import NoAnswer
from innet.node.messages import JobMessage, PoolMessage, RuleMessage
from innet.plans import Plan

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
        """Have all switches serve a job, before any of its rules.

        Raises:
            ControlError: a switch refuses or does not answer.
        """
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

        Raises:
            ControlError: a switch refuses.
        """
        self.restore_pools(pools)
        outcomes = yield self._to_all([self._set_pools()])
        _raise_first(outcomes, but=NoAnswer)

    def close_pools(self, pools: Sequence[PoolMessage]) -> Operation[None]:
        """Have all switches serve ``pools`` and no others, as far as they answer."""
        self.restore_pools(pools)
        yield self._to_all([self._set_pools()])

    def restore_pools(self, pools: Sequence[PoolMessage]) -> None:
        """The switches are to serve these pools."""
        self._pools = tuple(pools)

    def place(self, plans: Mapping[str, Plan]) -> dict[str, Plan]:
        """Where the sums of ``plans``, made for the whole network, are made now."""
        return {prefix: self.live.place(plan) for prefix, plan in plans.items()}

    def install(self, plans: Mapping[str, Plan], keys: MessagesTo) -> Operation[None]:
        """Install a group's ``keys`` on all switches, and the rules of ``plans``.

        Raises:
            ControlError: a switch refuses, or one that the plans need does not answer.
        """
        rules = {switch: _rules(plans, switch) for switch in self.live.switches}
        messages = {switch: [*keys(switch), *of_switch] for switch, of_switch in rules.items()}
        outcomes = yield Deliver(messages, REQUEST_TIMEOUT_S)
        _raise_first({switch: found for switch, found in outcomes.items() if rules[switch]})
        _raise_first(outcomes, but=NoAnswer)  # it gets the keys when it returns

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
        ).model_dump()
        for rule in plan.rules_for(node)
    ]
