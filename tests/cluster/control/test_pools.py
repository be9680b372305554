"""The pools of blocks on a network: who is in them, and what the switches are told of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from innet.cluster.control.controller import Controller
from innet.cluster.control.jobs import Job, KnownJob, LaunchRecord
from innet.errors import ControlError, NoAnswer
from innet.kv.tenant import Tenant
from innet.security import JobTrust
from innet.security.pool_proofs import pool_statement
from innet.security.trust import PrivateKey
from innet.topology import load_topology
from tests.cluster.control.hand_driven import HandDriven

HOSTS = ("h0", "h1", "h2")
ACME, OTHER = (Tenant(name, bytes(range(32))) for name in ("acme", "other"))


class Nodes:
    """All nodes: which pools each serves, for whom, and what its worker reports."""

    def __init__(self) -> None:
        self.pools: dict[str, dict[str, Any]] = {}
        self.refuses: Exception | None = None
        self.emptied: list[tuple[str, str]] = []
        self.reports: dict[str, dict[str, Any]] = {}

    def answer(self, node: str, method: str, params: Mapping[str, Any]) -> Any:
        if method == "set_pools":
            if self.refuses is not None:
                raise self.refuses
            self.pools[node] = {pool["prefix"]: pool for pool in params["pools"]}
        if method == "drop_cached":
            self.emptied.append((node, params["prefix"]))
        if method == "memberships":
            if node not in self.reports:
                raise NoAnswer("no worker runs there")
            return self.reports[node]
        return None

    def hosts_of(self, tenant: Tenant) -> list[str]:
        """The hosts whose faces carry the pool's names at the switch; none: it is not served."""
        pool = self.pools.get("s0", {}).get(tenant.prefix)
        return [] if pool is None else sorted(pool["hosts"])


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


@pytest.fixture
def controller(nodes: Nodes) -> HandDriven:
    made = HandDriven(Controller(load_topology("star:3")), nodes.answer)
    made.open_job(HOSTS)
    return made


def part(tenant: Tenant, capacity_bytes: int = 100, weight: int = 1) -> dict[str, Any]:
    return {
        "tenant": tenant.component,
        "key": tenant.public_key.model_dump(),
        "capacity_bytes": capacity_bytes,
        "weight": weight,
    }


def join(controller: HandDriven, node: str, **said: Any) -> int:
    incarnation: int = controller.attach(node, 1)
    controller.open_pool(node, incarnation, **said)
    return incarnation


def test_switches_serve_a_pool_until_its_last_member_leaves(controller, nodes):
    first = join(controller, "h0", **part(ACME, 100, weight=2))
    second = join(controller, "h1", **part(ACME, 0, weight=3))
    assert nodes.hosts_of(ACME) == ["h0", "h1"]
    assert nodes.pools["s0"][ACME.prefix]["weight"] == 3
    assert nodes.pools["s0"][ACME.prefix]["key"] == ACME.public_key.model_dump()
    assert controller.pool_members(ACME.component) == {"h0": 100}, "h1 offers nothing"
    controller.leave_pool("h0", first, ACME.component)
    assert nodes.hosts_of(ACME) == ["h1"]
    controller.leave_pool("h1", second, ACME.component)
    assert nodes.pools["s0"] == {}
    assert controller.pool_members(ACME.component) == {}


@pytest.mark.parametrize("end", ["fail", "lose", "end", "detach", "attach"])
def test_a_process_that_ends_leaves_all_its_pools(controller, nodes, end):
    incarnation = join(controller, "h0", **part(ACME))
    controller.open_pool("h0", incarnation, **part(OTHER))
    join(controller, "h1", **part(ACME))
    if end in ("fail", "lose"):
        getattr(controller, f"{end}_node")("h0", "was killed")
    elif end == "detach":
        controller.detach("h0", incarnation)
    elif end == "attach":
        controller.attach("h0", 1)
    else:
        controller.end_node("h0")
    assert controller.pool_members(ACME.component) == {"h1": 100}
    assert nodes.hosts_of(ACME) == ["h1"]
    assert nodes.hosts_of(OTHER) == []


def test_a_member_empties_the_switches_caches_of_its_own_pool(controller, nodes):
    first = join(controller, "h0", **part(ACME))
    second = join(controller, "h1", **part(OTHER))
    controller.empty_pool_caches("h0", first, ACME.component)
    assert nodes.emptied == [("s0", ACME.prefix)]
    with pytest.raises(ControlError, match="h1 is not in the pool"):
        controller.empty_pool_caches("h1", second, ACME.component)
    controller.empty_pool_caches("h0", first - 1, ACME.component)
    assert len(nodes.emptied) == 1, "a process of before"


def test_a_job_that_ends_leaves_its_pools(controller, nodes):
    join(controller, "h0", **part(ACME))
    controller.close_job(controller.job)
    assert controller.killed == list(HOSTS), "what its workers started may have outlived them"
    assert nodes.pools["s0"] == {}


def test_an_earlier_process_cannot_join_or_leave_for_its_successor(controller):
    first = join(controller, "h0", **part(ACME))
    join(controller, "h0", **part(ACME))
    controller.leave_pool("h0", first, ACME.component)
    controller.detach("h0", first)
    assert controller.pool_members(ACME.component) == {"h0": 100}
    with pytest.raises(ControlError, match="no longer attached to h0"):
        controller.open_pool("h0", first, **part(OTHER))


def test_a_second_key_for_a_tenant_is_refused(controller, nodes):
    join(controller, "h0", **part(ACME))
    forged = {**part(ACME), "key": OTHER.public_key.model_dump()}
    with pytest.raises(ControlError, match="the same file with its secret"):
        join(controller, "h1", **forged)
    assert nodes.hosts_of(ACME) == ["h0"]


def test_a_pool_that_a_switch_refuses_does_not_open(controller, nodes):
    incarnation = join(controller, "h0", **part(ACME))
    nodes.refuses = ControlError("there are 64 jobs")
    with pytest.raises(ControlError, match="64 jobs"):
        controller.open_pool("h0", incarnation, **part(OTHER))
    assert [pool["tenant"] for pool in controller.pools()] == [ACME.component]


def test_a_switch_that_comes_back_serves_the_pools_again(controller, nodes):
    nodes.refuses = NoAnswer("it hangs")
    join(controller, "h0", **part(ACME))
    controller.lose_switch("s0", "s0 was killed", returns=True)
    nodes.refuses = None
    nodes.pools.clear()
    controller.restore_switch("s0")
    assert nodes.hosts_of(ACME) == ["h0"]


def test_a_restarted_controller_learns_the_pools_from_the_workers(nodes):
    nodes.reports["h1"] = {
        "node": "h1",
        "pid": 1,
        "incarnation": 1,
        "failed": None,
        "groups": [],
        "pools": [part(ACME, 7)],
    }
    nodes.pools["s0"] = {OTHER.prefix: {}}
    job = KnownJob(job=Job("j1", "/j1", HOSTS, 1), keys=JobTrust(signing=None, trusted=()))
    record = LaunchRecord(generation=1, admitted=1, jobs={"j1": job})
    again = HandDriven(Controller(load_topology("star:3"), record=record), nodes.answer)
    assert again.pool_members(ACME.component) == {"h1": 7}
    assert nodes.hosts_of(ACME) == ["h1"]
    assert nodes.hosts_of(OTHER) == [], "all members of that have gone meanwhile"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"weight": 0}, "a pool's weight"),
        ({"key": {"signature": "hmac", "name": "/k", "secret": "00"}}, "signed with Ed25519"),
    ],
)
def test_an_invalid_offer_of_memory_is_refused(controller, wrong, message):
    with pytest.raises(ControlError, match=message):
        join(controller, "h0", **{**part(ACME), **wrong})
    assert controller.pools() == []


def test_a_member_with_another_number_of_replicas_is_refused(controller, nodes):
    join(controller, "h0", **part(ACME), replicas=2)
    with pytest.raises(ControlError, match=r"h1 counts 1 replicas .* Give replicas=2"):
        join(controller, "h1", **part(ACME))
    assert nodes.hosts_of(ACME) == ["h0"]
    assert [pool["replicas"] for pool in controller.pools()] == [2]
    join(controller, "h1", **part(OTHER))


class TestProofs:
    """A member proves that it has the tenant's private key; the public one is known to all."""

    def _controller(self, nodes: Nodes, **changes: Any) -> HandDriven:
        made = Controller(load_topology("star:3"), record=self.record.model_copy(update=changes))
        return HandDriven(made, nodes.answer)

    def setup_method(self) -> None:
        authority = PrivateKey.generate("ed25519")
        self.network = authority.public.spki.hex()
        self.record = LaunchRecord(authority=authority.to_der().hex())

    def _proven(self, node: str, incarnation: int, network: str = "") -> dict[str, Any]:
        statement = pool_statement(network or self.network, node, incarnation, ACME.component)
        return {**part(ACME), "proof": ACME.proof(statement)}

    def test_a_member_with_the_secret_is_admitted(self, nodes: Nodes) -> None:
        controller = self._controller(nodes)
        controller.open_job(HOSTS)
        incarnation = controller.attach("h0", 1)
        controller.open_pool("h0", incarnation, **self._proven("h0", incarnation))
        assert controller.pool_members(ACME.component) == {"h0": 100}

    def test_who_knows_the_public_key_alone_opens_no_pool(self, nodes: Nodes) -> None:
        controller = self._controller(nodes)
        controller.open_job(HOSTS)
        incarnation = controller.attach("h0", 1)
        lies = [
            part(ACME),
            {**part(ACME), "proof": "00" * 64},
            self._proven("h1", incarnation),
            self._proven("h0", incarnation + 1),
            self._proven("h0", incarnation, network="another"),
            {**self._proven("h0", incarnation), "tenant": OTHER.component},
        ]
        for lie in lies:
            with pytest.raises(ControlError, match="has not proven that it has the private key"):
                controller.open_pool("h0", incarnation, **lie)
        assert controller.pools() == []

    def test_the_next_controller_believes_no_member_without_a_proof(self, nodes: Nodes) -> None:
        for proven in (False, True):
            claimed = self._proven("h0", 7) if proven else part(ACME)
            nodes.reports = {
                "h0": {
                    "node": "h0",
                    "pid": 1,
                    "incarnation": 7,
                    "failed": None,
                    "groups": [],
                    "pools": [claimed],
                }
            }
            controller = self._controller(nodes, generation=1)
            assert controller.pool_members(ACME.component) == ({"h0": 100} if proven else {})
