"""What a policy gives each node in a group: no name twice, and nothing that is another's."""

from __future__ import annotations

import pytest

from innet.plans import make_plan, place_without
from innet.security.trust.facts import GroupFacts
from innet.security.trust.policy import Policy
from innet.security.trust.rights import GroupRights, rights_of
from innet.topology import load_topology

GROUP = "/j1/g0.inc"
FABRIC = load_topology("leaf-spine:2x2x2")
JOB = Policy.load("job")


@pytest.mark.parametrize("algorithm", ["inc", "ring", "ps", "halving-doubling"])
def test_each_name_of_a_group_has_one_signer(algorithm: str) -> None:
    plan = make_plan(algorithm, FABRIC, FABRIC.hosts)
    members = tuple(reversed(plan.ranks))
    rights = rights_of(JOB, {GROUP: GroupFacts.of_plan(plan, members)})
    for rank, node in enumerate(plan.ranks):
        assert f"{GROUP}/{rank}" in rights[node]
    for rank, node in enumerate(members):
        rooms = {f"{GROUP}/{room}/{rank}" for room in ("p2p", "rounds", "obj", "arrays")}
        assert rooms <= set(rights[node])
    for interval in plan.intervals:
        makers = {node for node in rights if f"{GROUP}/{interval}" in rights[node]}
        assert makers == set(plan.nodes_for(interval))
    given = [name for of_node in rights.values() for name in of_node]
    sums = sum(len(plan.nodes_for(interval)) for interval in plan.intervals)
    assert len(given) == 5 * plan.size + sums


def test_a_moved_sum_can_be_signed_by_its_old_and_new_node() -> None:
    plan = make_plan("inc", FABRIC, FABRIC.hosts)
    rights = GroupRights(plan.ranks)
    rights.place(JOB, {GROUP: plan})
    root = plan.roots[0]
    moved = place_without(plan, FABRIC, [root.node])
    rights.place(JOB, {GROUP: moved})
    name = f"{GROUP}/{root.interval}"
    holders = {node for node, names in rights.names.items() if name in names}
    assert holders == {*plan.nodes_for(root.interval), *moved.nodes_for(root.interval)}
    assert set(moved.nodes_for(root.interval)) != set(plan.nodes_for(root.interval))


def test_a_policy_can_revoke_rights() -> None:
    """Objects are nobody's to sign here."""
    text = (
        '#anchor: job/"KEY"/_/"self"/_\n'
        "#name: job/group/rank/_/_/_ & {rank: $rank()} <= #holder\n"
        '#holder: "n"/node/"KEY"/job/_/_ & {node: $holds(job, group, rank)} <= #anchor\n'
    )
    plan = make_plan("ps", FABRIC, FABRIC.hosts)
    rights = rights_of(Policy.of_text(text), {GROUP: GroupFacts.of_plan(plan)})
    assert rights == {node: [f"{GROUP}/{rank}"] for rank, node in enumerate(plan.ranks)}
