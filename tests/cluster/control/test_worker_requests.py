"""Requests and reports of processes that lie: they change nothing of other jobs."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from innet.cluster.control.controller import Controller
from innet.cluster.control.jobs import KnownJob, LaunchRecord
from innet.cluster.control.worker_requests import WORKER_REQUESTS, request_of_machine
from innet.errors import InnetError
from innet.node.messages import GroupReport, NodeReading, PingReply, WorkerReport
from innet.node.requests import ControlRequest
from innet.security import KeyDealer
from innet.security.trust.keys import PrivateKey
from innet.topology import load_topology
from tests.cluster.control.hand_driven import HandDriven

HONEST, LYING = ("h0", "h2"), ("h1", "h3")
"""The hosts of a job, and those of another one, which is on machine m1."""
GOOD_KEY = "09" + "00" * 31
LOW_ORDER = "00" * 32
"""A point of X25519 to which nothing can be sealed."""


@contextmanager
def no_defects() -> Iterator[None]:
    """The controller logs no defect."""
    found: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("innet.cluster.control")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
    assert found == []


class TwoJobs(HandDriven):
    """A controller with a group g0 of an honest job, and another job on machine m1.

    Attributes:
        number: of that group.
        record: for a successor.
    """

    number: int

    def __init__(
        self, answers: Mapping[str, Mapping[str, Any]] | None = None, before: TwoJobs | None = None
    ) -> None:
        """
        Args:
            answers: of nodes, by method.
            before: the controller that this one replaces.
        """
        of_method = answers or {}
        self.record = LaunchRecord(authority=PrivateKey.generate("ed25519").to_der().hex())
        if before is not None:
            self.record = before.record.model_copy(update={"generation": 1})
        controller = Controller(load_topology("leaf-spine:2x2x2"), record=self.record)
        super().__init__(controller, lambda node, method, _: of_method.get(method, {}).get(node))
        if before is not None:
            self.number = before.number
            return
        for hosts in (HONEST, LYING):
            for host in hosts:
                self.attach(host, 7, GOOD_KEY)
            keys = KeyDealer(["leaf0"], "gmac").deal(f"j{len(self.record.jobs) + 1}", hosts)
            job = self.open_job(hosts, keys=keys.switches, groups=keys.groups)
            self.record.jobs[job.name] = KnownJob(job=job, keys=keys.switches, groups=keys.groups)
        self.record.admitted = 2
        self.number = self.join_all("inc", HONEST)["number"]
        for node in HONEST * 2:
            self.ready_group("g0", self.number, node)

    def join_all(self, algorithm: str, hosts: Sequence[str]) -> Any:
        for node in (*hosts, *hosts):
            answer = self.join_group("g0", algorithm, hosts, node)
        return answer

    def report(self, node: str, algorithm: str = "inc", **changes: Any) -> dict[str, Any]:
        """What the worker of a node tells a successor, with changes to its group."""
        hosts = HONEST if node in HONEST else LYING
        answer = self.join_all(algorithm, hosts)
        group = GroupReport(
            name="g0",
            number=answer["number"],
            algorithm=algorithm,
            ranks=hosts,
            plans=answer["plans"],
            ready=True,
            left=False,
            failure=None,
        )
        changed = [group.model_dump() | changes]
        worker = WorkerReport(node=node, pid=7, incarnation=1, failed=None, groups=[])
        return worker.model_dump() | {"sealing_key": GOOD_KEY, "groups": changed}

    def lie(self, method: str, **params: Any) -> Any:
        """A request of machine m1."""
        request = ControlRequest(method=method, params=params)
        checked = request_of_machine(request, "m1", LYING)
        return self.reply(self.request(checked.method, **checked.params))

    def require_unharmed(self) -> None:
        """The honest job goes on, also when the network changes."""
        for change in (
            lambda: self.lose_switch("spine0", "was killed", returns=True),
            lambda: self.restore_switch("spine0"),
        ):
            change()
            self.pass_time(self.now_s + 3)
        assert set(self.failures()) <= set(LYING)
        assert set(self.present()) >= set(HONEST)
        for node in HONEST:
            found = self.ready_group("g0", self.number, node)
            assert found == {"missing": [], "failure": None}
            assert self.join_group("g1", "ring", HONEST, node)["missing"] is not None
        self.load()


def test_the_requests_of_a_machine_are_refused_one_by_one():
    """Each of these harmed another job, or the controller, once."""
    driven = TwoJobs()
    number = driven.number
    with no_defects():
        for method, params in (
            ("attach", {"node": "h1", "pid": 0}),
            ("attach", {"node": "h1", "pid": 1 << 40}),
            ("attach", {"node": "h1", "pid": 7, "sealing_key": "zz"}),
            ("announce", {"node": "h1", "incarnation": 1, "version": 1, "prefixes": ["x"]}),
            ("announce", {"node": "h1", "incarnation": 1, "version": 1, "prefixes": ["/%6E/h0"]}),
            ("announce", {"node": "h1", "incarnation": 1, "version": 1, "prefixes": ["/8=kv/ab"]}),
            ("announce", {"node": "h1", "incarnation": 1, "version": -1, "prefixes": ["/a"]}),
            ("join_group", of_group("g0", ["h0", "h1"], "h1")),
            ("join_group", of_group("g0", ["h0", "h2"], "h1")),
            ("join_group", of_group("g2", ["h1", "h1"], "h1")),
            ("join_group", of_group("g2", ["h1", "nowhere"], "h1")),
            ("ready_group", {"group": "g0", "number": number, "node": "h1"}),
            ("shrink_group", {"group": "g0", "number": number, "node": "h1", "heard": ["x", 0]}),
            ("expel", {"node": "h1", "other": "h0", "why": "x"}),
            ("open_pool", {"node": "h1", "incarnation": 1, **pool(key_secret="x")}),
            ("open_pool", {"node": "h1", "incarnation": 1, **pool(key_name="/..")}),
            ("open_pool", {"node": "h1", "incarnation": 1, **pool(weight=1 << 40)}),
            ("leave_pool", {"node": "h1", "incarnation": 1, "tenant": "../x"}),
            ("nothing", {}),
            ("lose_node", {"node": "h0", "why": "x"}),
        ):
            with pytest.raises(InnetError):
                driven.lie(method, **params)
        for method, params in (
            ("leave_groups", {"groups": [["g0", number]], "node": "h1"}),
            ("group_failure", {"group": "g0", "number": number, "node": "h1"}),
            (
                "fail",
                {
                    "node": "h1",
                    "incarnation": 1,
                    "why": "x",
                    "causes": [["g0", number, "a lie", 1], ["g0", number, "a lie", 99]],
                },
            ),
        ):
            driven.lie(method, **params)
        assert driven.told_by("fail_group") == {}
        driven.require_unharmed()


@pytest.mark.parametrize("node", ["leaf0", "nowhere"])
def test_no_process_attaches_to_a_node_that_is_no_host(node: str) -> None:
    driven = TwoJobs()
    with no_defects():
        with pytest.raises(InnetError, match=f"{node} is no host"):
            driven.attach(node, 7)
        driven.require_unharmed()


def test_a_rank_that_is_none_and_groups_of_others_of_its_job_are_not_believed():
    driven = TwoJobs()
    number = driven.join_all("inc", LYING)["number"]
    alone = driven.join_group("g5", "inc", ["h1"], "h1")["number"]
    with no_defects():
        with pytest.raises(InnetError, match="h3 has no rank of group 'g5'"):
            driven.lie("shrink_group", group="g5", number=alone, node="h3", heard=["a lie", 0])
        assert driven.ready_group("g5", alone, "h1") == {"missing": [], "failure": None}
        driven.lie("fail", node="h1", incarnation=1, why="x", causes=[["g0", number, "a lie", 99]])
        driven.require_unharmed()
    assert driven.told_by("fail_group")["h3"]["rank"] == LYING.index("h1")


def of_group(group: str, ranks: list[str], node: str) -> dict[str, Any]:
    return {"group": group, "algorithm": "inc", "ranks": ranks, "node": node}


def pool(
    key_secret: str = "ab" * 32, key_name: str = "/kv/ab/KEY", weight: int = 1
) -> dict[str, Any]:
    key = {"signature": "ed25519", "name": key_name, "secret": key_secret}
    return {"tenant": "ab", "key": key, "capacity_bytes": 1 << 20, "weight": weight}


def test_a_key_to_which_nothing_can_be_sealed_is_refused_and_stops_no_group():
    driven = TwoJobs()
    with no_defects():
        with pytest.raises(InnetError, match="is not a key that can be sealed to"):
            driven.lie("attach", node="h1", pid=7, sealing_key=LOW_ORDER)
        driven.require_unharmed()


def test_a_switch_with_a_key_to_which_nothing_can_be_sealed_stops_no_group():
    driven = TwoJobs({"sealing_key": {"leaf0": LOW_ORDER, "leaf1": 5, "spine0": ["x"]}})
    with no_defects():
        driven.require_unharmed()


NODES = st.sampled_from((*HONEST, *LYING, "leaf0", "spine0", "nowhere", ""))
OWN = st.sampled_from(LYING)
COUNTS = st.integers(-1, 4) | st.sampled_from((1 << 31, 1 << 63))
TEXTS = st.sampled_from(("", "g0", "g1", "a/b", "..", "x" * 300, "\n[innet]", "inc", "auto"))
PREFIXES = st.sampled_from(("/", "/a", "/n/h0", "/%6e/h0", "/kv", "/j1/g0", "a", "/localhost/x"))
VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "node": OWN | NODES,
    "other": NODES,
    "pid": COUNTS,
    "sealing_key": st.sampled_from((None, GOOD_KEY, LOW_ORDER, "x", 5)),
    "is_attached": st.booleans(),
    "incarnation": COUNTS,
    "version": COUNTS,
    "prefixes": st.lists(PREFIXES, max_size=3),
    "group": TEXTS,
    "groups": st.lists(st.tuples(TEXTS, COUNTS), max_size=3),
    "algorithm": st.sampled_from(("inc", "ring", "ps:server=h0", "auto", "x", "inc:roots=h0")),
    "ranks": st.lists(NODES, max_size=4) | st.just(list(LYING)),
    "number": COUNTS,
    "heard": st.none() | st.tuples(TEXTS, COUNTS | st.none()),
    "why": TEXTS,
    "causes": st.lists(st.tuples(TEXTS, COUNTS, TEXTS, COUNTS | st.none()), max_size=3),
    "tenant": st.sampled_from(("ab", "cd", "x", "")),
    "key": st.sampled_from((pool()["key"], pool(key_secret="00")["key"], {}, None)),
    "capacity_bytes": COUNTS,
    "weight": COUNTS,
    "replicas": COUNTS,
    "name": TEXTS,
    "proof": st.sampled_from(("", "00" * 64, "x")),
}


@st.composite
def lies(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    method = draw(st.sampled_from(sorted(WORKER_REQUESTS)))
    fields = WORKER_REQUESTS[method].model_fields
    return method, {name: draw(VALUES[name]) for name in fields}


@settings(max_examples=60, deadline=None)
@given(st.lists(lies(), max_size=12))
def test_no_sequence_of_requests_harms_another_job(said: list[tuple[str, dict[str, Any]]]) -> None:
    driven = TwoJobs()
    with no_defects():
        for method, params in said:
            try:
                driven.lie(method, **params)
            except (InnetError, ValueError):
                continue
            assert params.get("node", "h1") in LYING
        driven.require_unharmed()


READING: dict[str, Any] = {"time_s": 1.0, "cpu_s": 0.5}


@pytest.mark.parametrize(
    "answer",
    [
        {"unheard": 5},
        {"unheard": ["x"] * 5000},
        {"unheard": [], "reading": {"time_s": "NaN", "cpu_s": 0}},
        {"unheard": [], "reading": {**READING, "cpu_s": float("inf")}},
        {"unheard": [], "reading": {**READING, "sent_bytes": {"h0": -1}}},
        {"unheard": [], "reading": {**READING, "sent_bytes": {"h0": 1 << 80}}},
        {"unheard": [], "reading": {**READING, "more": 1}},
        [],
        None,
    ],
)
def test_an_answer_to_a_ping_that_is_none_is_refused(answer: Any) -> None:
    with pytest.raises(ValidationError):
        PingReply.model_validate(answer)


def test_readings_and_silences_of_others_links_are_dropped():
    driven = TwoJobs()
    driven.watch_nodes()

    def reading_of(node: str) -> NodeReading | None:
        if node not in LYING:
            return None
        counts = dict.fromkeys(("h0", "nowhere"), int(driven.now_s * 1e9))
        return NodeReading(time_s=driven.now_s, cpu_s=0.0, sent_bytes=counts)

    driven.reading_of = reading_of
    with no_defects():
        driven.pass_time(20, unheard={"h1": ["h0", "spine0", "nowhere"], "h3": ["leaf0", "h1"]})
        driven.require_unharmed()
        assert driven.load()["load"]["link_bps"] == {}


LIES: dict[str, Callable[[TwoJobs], Any]] = {
    "not a report": lambda before: [1],
    "another node": lambda before: before.report("h1") | {"node": "h0", "pid": 9},
    "a low key": lambda before: before.report("h1") | {"sealing_key": LOW_ORDER},
    "the honest group": lambda before: before.report("h0") | {"node": "h1"},
    "its number": lambda before: before.report("h1", number=before.number),
    "ranks of others": lambda before: before.report("h1", ranks=["h1", "h0"]),
    "plans for others": lambda before: replaced(before, "h3", "h0"),
    "unknown ranks": lambda before: before.report("h1", ranks=["h1", "nowhere"]),
    "no plan": lambda before: before.report("h1", plans={}),
    "no plans": lambda before: before.report("h1", plans={"/j2/g0.inc": {}}),
    "another job's prefix": lambda before: renamed(before, "/j1/g0.inc"),
    "a long prefix": lambda before: renamed(before, "/j2/a/b"),
    "a strange prefix": lambda before: renamed(before, "/j2/a%2Fb"),
    "unknown nodes": lambda before: moved(before, "plans"),
    "moves to unknown nodes": lambda before: moved(before, "placed"),
    "a rank that is none": lambda before: before.report("h1", failure=["a lie", 99]),
    "pools": lambda before: before.report("h1") | {"pools": [pool(key_secret="00")]},
    "pools that weigh": lambda before: before.report("h1") | {"pools": [pool(weight=1 << 40)]},
}


def renamed(before: TwoJobs, prefix: str) -> dict[str, Any]:
    (plan,) = before.report("h1")["groups"][0]["plans"].values()
    return before.report("h1", plans={prefix: plan})


def moved(before: TwoJobs, field: str) -> dict[str, Any]:
    """Sums on nodes that the network does not have."""
    plans = before.report("h1")["groups"][0]["plans"]
    found = json.loads(re.sub("leaf[0-9]|spine[0-9]", "nowhere", json.dumps(plans)))
    return before.report("h1", **{field: found})


def replaced(before: TwoJobs, host: str, other: str) -> dict[str, Any]:
    """A group with a host of another job in place of one."""
    found: dict[str, Any] = json.loads(json.dumps(before.report("h1")).replace(host, other))
    return found


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_lie_to_a_controller_that_starts_again_harms_no_other_job(
    lie: Callable[[TwoJobs], Any],
) -> None:
    before = TwoJobs()
    memberships = {"h1": lie(before), **{node: before.report(node) for node in HONEST}}
    registered = {"h1": {"version": 1, "prefixes": ["x", "/%6E/h0"]}}
    with no_defects():
        after = TwoJobs({"memberships": memberships, "registered": registered}, before)
        after.require_unharmed()
    assert after.watched["h0"].pid == 7
    told = json.dumps([(node, method, str(params)) for node, method, params in after.told])
    told += json.dumps(after.plans())
    for never in ("nowhere", "a%2Fb", "'rank': 99", "kv/ab"):
        assert never not in told
    made = {params["group"] for _, method, params in after.told if method == "install_group"}
    assert {"/j1/g0.inc"} <= made <= {"/j1/g0.inc", "/j2/g0.inc"}
    ranks = {node for group in after.groups() if group["job"] == "j2" for node in group["ranks"]}
    assert ranks <= set(LYING)
