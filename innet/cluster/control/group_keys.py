"""The keys of each group, for its members and the switches, each sealed to its process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from innet.cluster.control.actions import (
    Deliver,
    Message,
    MessageOutcome,
    Operation,
    Outbox,
    first_error,
)
from innet.cluster.control.group_plans import Group
from innet.errors import NoAnswer, SecurityError
from innet.security.group_keys import GroupKeySource, epoch_name

if TYPE_CHECKING:
    from innet.security.credential_packets import KeyAuthority
    from innet.security.trust.policy import Policy

_ASK_KEY: tuple[Message, ...] = (("sealing_key", {}),)

_log = logging.getLogger(__name__)


class GroupKeys:
    """Makes the credentials of groups, for the processes whose sealing keys it knows."""

    def __init__(self, authority: KeyAuthority | None, outbox: Outbox) -> None:
        """Without an ``authority``, groups have no keys of their own."""
        self._authority = authority
        self._outbox = outbox
        self._silent: set[str] = set()
        """Switches that did not answer in time: no group waits for them again."""
        self.on_learned: Callable[[str], None] = lambda _switch: None
        """Receives a switch whose sealing key came after groups were made without it."""
        self._sources: dict[str, GroupKeySource] = {}
        self._policies: dict[str, Policy] = {}
        self._public: dict[str, str] = {}

    def open_job(self, job: str, source: GroupKeySource | None) -> None:
        """Groups of the job have keys from ``source`` from now on."""
        if source is not None and self._authority is not None:
            self._sources[job] = source
            if source.policy is not None:
                from innet.security.trust.policy import (
                    Policy,  # as few jobs have one, and it takes long
                )

                self._policies[job] = Policy.of_text(source.policy)

    def close_job(self, job: str) -> None:
        """The job is over: nothing is left that its keys could be made of."""
        self._sources.pop(job, None)
        self._policies.pop(job, None)

    def learn_switches(self, switches: Collection[str], *, anew: bool = False) -> Operation[None]:
        """Request the unknown sealing keys of switches.

        A switch that does not answer is waited for once: from then on it delays no group, and gets
        the keys of groups when it answers. ``anew``: other processes may have taken their places,
        with other keys.
        """
        if anew:
            self._public = {n: key for n, key in self._public.items() if n not in switches}
        if not self._sources:
            return
        unknown = [switch for switch in switches if switch not in self._public]
        for switch in self._silent.intersection(unknown):
            self._ask_late(switch)
        awaited = [switch for switch in unknown if switch not in self._silent]
        outcomes = yield Deliver(dict.fromkeys(awaited, _ASK_KEY))
        for switch, (outcome,) in outcomes.items():
            self._take_answer(switch, outcome)

    @property
    def network(self) -> str:
        """The public key of the authority, which distinguishes this network; empty without one."""
        return "" if self._authority is None else self._authority.public

    @property
    def silent(self) -> frozenset[str]:
        """The switches that no group waits for: they get its keys when they answer."""
        return frozenset(self._silent)

    def give_up(self, switch: str) -> None:
        """The switch has not taken the keys of a group: wait for it no more."""
        self._silent.add(switch)
        self._public.pop(switch, None)
        self._ask_late(switch)

    def on_given(self, switch: str, outcomes: Sequence[MessageOutcome]) -> None:
        """A switch that no group waits for has taken keys, or has not.

        If it has, groups wait for it again, and it gets what it did not take before.
        """
        if first_error(outcomes) is None and switch in self._silent:
            self._silent.discard(switch)
            self.on_learned(switch)

    def _ask_late(self, switch: str) -> None:
        self._outbox.send(switch, _ASK_KEY, on_sent=partial(self._on_late_answer, switch))

    def _on_late_answer(self, switch: str, outcomes: Sequence[MessageOutcome]) -> None:
        self._take_answer(switch, outcomes[0])
        if switch in self._public:
            self.on_learned(switch)

    def _take_answer(self, switch: str, answer: MessageOutcome) -> None:
        if isinstance(answer.error, NoAnswer):
            self._silent.add(switch)
            return
        try:
            self.learn(switch, answer.result)
        except SecurityError as error:  # it gets no keys, and the others do
            _log.warning("the sealing key of %s is of no use: %s", switch, error)

    def learn(self, node: str, public: object) -> None:
        """Store the sealing key of a node's new process; ``None``: it has none.

        Raises:
            SecurityError: nothing can be sealed to the key.
        """
        self._public.pop(node, None)
        if public is not None and self._authority is not None:
            self._authority.require_sealing_key(public)
            self._public[node] = str(public)

    def for_member(self, group: Group, node: str) -> str | None:
        """The packet for a member, hexadecimal; a process always gets the same packet.

        ``None`` when the group has no keys of its own.
        """
        if node not in group.sealed:
            packet = self._packet(group, group.ranks, node)
            if packet is None:
                return None
            group.sealed[node] = packet
        return group.sealed[node]

    def renew(self, group: Group) -> Mapping[str, str]:
        """The group's sums have moved: by joined member, the packet that it needs now.

        Empty where a placement gives nobody a right.
        """
        if group.job not in self._policies:
            return {}
        group.sealed.clear()
        members = [group.ranks[rank] for rank in sorted(group.joined)]
        return {node: packet for node in members if (packet := self.for_member(group, node))}

    def for_switch(self, group: Group, switch: str) -> Sequence[Message]:
        """A switch's credentials, made on each call; nothing while its sealing key is unknown."""
        packet = self._packet(group, group.ranks, switch)
        return () if packet is None else (("install_group_keys", {"packet": packet}),)

    def _packet(self, group: Group, members: Sequence[str], node: str) -> str | None:
        source = self._sources.get(group.job)
        public = self._public.get(node)
        if source is None or public is None or self._authority is None:
            return None
        prefixes = tuple(group.plans)
        epoch = epoch_name(prefixes, group.number)
        credentials = source.credentials(prefixes, epoch, members, self._names(group))
        return self._authority.seal(epoch, credentials, node, public).hex()

    def _names(self, group: Group) -> Mapping[str, Sequence[str]] | None:
        """The names that each node's key may sign in the group; ``None``: all names."""
        policy = self._policies.get(group.job)
        if policy is None:
            return None
        if group.rights is None:
            from innet.security.trust.rights import GroupRights

            group.rights = GroupRights(group.ranks)
            group.rights.place(policy, group.plans)
        group.rights.place(policy, group.placed)
        return group.rights.names
