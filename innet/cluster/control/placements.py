"""What the switches that are left are told: of jobs, pools, their sums' rules, and of routes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from innet.errors import NoAnswer
from innet.node.control.messenger import Message, Messenger
from innet.node.control.protocol import JobMessage, PoolMessage, RuleMessage
from innet.node.control.survivors import Survivors
from innet.plans import Plan

MessagesTo = Callable[[str], Sequence[Message]]
"""What a switch is told."""

_POOLS_TIMEOUT_S = 2.0


class Placements:
    """Installs jobs, rules and routes on the switches of a network, and takes them away."""

    def __init__(self, survivors: Survivors, messenger: Messenger) -> None:
        self.survivors = survivors
        """The network as it is: who replaces it sees to it that the nodes hear of it."""
        self._messenger = messenger
        self._jobs: dict[str, JobMessage] = {}
        self._pools: tuple[PoolMessage, ...] = ()

    def open_job(self, job: JobMessage) -> None:
        """Have all switches serve a job, before any of its rules.

        Raises:
            ControlError: a switch refuses or does not answer.
        """
        self.restore_job(job)
        for switch in self.survivors.switches:
            self._messenger.ask(switch, "install_job", **job.model_dump())

    def restore_job(self, job: JobMessage) -> None:
        """Know again a job that the switches are to serve."""
        self._jobs[job.prefix] = job

    def close_job(self, prefix: str) -> None:
        """Take all that the switches have of a job away, and wait until they have."""
        self._jobs.pop(prefix, None)
        said = ("remove_job", {"prefix": prefix})
        self._messenger.ask_all({switch: [said] for switch in self.survivors.switches})

    def open_pools(self, pools: Sequence[PoolMessage]) -> None:
        """Have all switches serve ``pools`` and no others, and wait until they do.

        One that does not answer is left as it is: it is told when it comes back.

        Raises:
            ControlError: a switch refuses.
        """
        self.restore_pools(pools)
        method, parameters = self._set_pools()
        for switch in self.survivors.switches:
            with suppress(NoAnswer):
                self._messenger.ask(switch, method, timeout_s=_POOLS_TIMEOUT_S, **parameters)

    def close_pools(self, pools: Sequence[PoolMessage]) -> None:
        """Have all switches serve ``pools`` and no others, as far as they answer."""
        self.restore_pools(pools)
        self._messenger.ask_all({switch: [self._set_pools()] for switch in self.survivors.switches})

    def restore_pools(self, pools: Sequence[PoolMessage]) -> None:
        """Know again the pools that the switches are to serve."""
        self._pools = tuple(pools)

    def _set_pools(self) -> Message:
        return "set_pools", {"pools": [pool.model_dump() for pool in self._pools]}

    def place(self, plans: Mapping[str, Plan]) -> dict[str, Plan]:
        """Where the sums of ``plans``, made for the whole network, are made now."""
        return {prefix: self.survivors.place(plan) for prefix, plan in plans.items()}

    def install(self, plans: Mapping[str, Plan], keys: MessagesTo) -> None:
        """Install a group's ``keys`` on all switches, and the rules of ``plans``.

        Raises:
            ControlError: a switch that they need does not answer.
        """
        for switch in self.survivors.switches:
            with suppress(NoAnswer):  # it is told when it comes back
                for method, parameters in keys(switch):
                    self._messenger.ask(switch, method, **parameters)
        for prefix, plan in plans.items():
            for switch in self.survivors.switches:
                if rules := rule_messages(plan, switch):
                    self._messenger.ask(switch, "install_group", group=prefix, rules=rules)

    def adapt_switches(self, plans: Mapping[str, Plan], keys: MessagesTo) -> None:
        """Give every switch that is left jobs, pools, routes, groups' keys and rules of ``plans``.

        One that does not answer is left as it is: it will be lost too, or come back.
        """
        hops = self.survivors.next_hops
        self._messenger.ask_all(
            {
                switch: [
                    *(("install_job", job.model_dump()) for job in self._jobs.values()),
                    self._set_pools(),
                    ("set_routes", {"routes": dict(hops[switch])}),
                    *keys(switch),
                    *(
                        ("install_group", {"group": prefix, "rules": rules})
                        for prefix, plan in plans.items()
                        if (rules := rule_messages(plan, switch))
                    ),
                ]
                for switch in self.survivors.switches
            }
        )

    def remove(self, plans: Mapping[str, Plan]) -> None:
        """Take the rules of ``plans`` away, wherever they may be, in the background."""
        for prefix in plans:
            self._messenger.tell(self.survivors.switches, "remove_group", group=prefix)


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
