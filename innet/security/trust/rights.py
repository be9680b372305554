"""The names that each node's key may sign in a group: the trust policy applied to its plan.

The packet path knows no policies: it checks whether a name lies below one of the prefixes of a key.
This module computes these prefixes. The plan names the candidates for a right (the holder of a
rank, the nodes that a sum is placed on), and the policy decides; a key gets a prefix if the policy
allows it the names in :data:`_SAMPLES` below that prefix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from innet.plans import Plan
from innet.security.keys import node_certificate_name
from innet.security.trust.facts import Facts, GroupFacts
from innet.security.trust.names import name_of
from innet.security.trust.policy import Policy

_SAMPLES = {
    "": "sum.f32/seq=0/seg=0",
    "p2p": "f32/0/0/seq=0/seg=0",
    "rounds": "ready/seq=0/seg=0",
    "obj": "object/seg=0",
    "arrays": "request/0/seq=0/seg=0",
}
"""A name that a rank signs in each namespace of a group, by the component before the rank."""


@dataclass
class GroupRights:
    """The rights of a group's nodes, as its sums move.

    A node keeps each right until the group is over: caches hold what it signed.

    Attributes:
        members: the node of each rank of the group.
        facts: by the prefix of the group's names, all placements so far.
        names: by node, the prefixes that its key may sign.
    """

    members: tuple[str, ...]
    facts: dict[str, GroupFacts] = field(default_factory=dict)
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def place(self, policy: Policy, plans: Mapping[str, Plan]) -> None:
        """The sums are made where ``plans`` say, by name prefix."""
        before = dict(self.facts)
        for prefix, plan in plans.items():
            placed = GroupFacts.of_plan(plan, self.members)
            known = self.facts.get(prefix)
            self.facts[prefix] = placed if known is None else placed.merged_with(known)
        if self.facts != before:
            self.names = rights_of(policy, self.facts)


def rights_of(policy: Policy, facts: Facts) -> dict[str, list[str]]:
    """By node, the prefixes of the names that its key may sign.

    Args:
        policy: which key may sign which names.
        facts: the plans of a job's groups, by the prefix of their names.

    >>> rights_of(Policy.load("job"), {"/j1/g0.inc": GroupFacts(("h0",), ("h0",))})["h0"][0]
    '/j1/g0.inc/0'
    """
    judge = policy.with_facts(facts)
    rights: dict[str, list[str]] = {}
    for prefix, group in facts.items():
        job = prefix.split("/")[1]
        for node, below, sample in _candidates(prefix, group):
            certificate = name_of(node_certificate_name(node, job))
            if judge.allows(name_of(f"{below}/{sample}"), certificate):
                rights.setdefault(node, []).append(below)
    return rights


def _candidates(prefix: str, group: GroupFacts) -> Iterator[tuple[str, str, str]]:
    """A candidate for a right: node, prefix of names, and the end of one of them."""
    for position, node in enumerate(group.positions):
        yield node, f"{prefix}/{position}", _SAMPLES[""]
    for room, sample in _SAMPLES.items():
        for rank, node in enumerate(group.members if room else ()):
            yield node, f"{prefix}/{room}/{rank}", sample
    for interval, nodes in group.sums.items():
        for node in sorted(nodes):
            yield node, f"{prefix}/{interval}", _SAMPLES[""]
