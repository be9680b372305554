"""The controller's word on groups: who is in them, who is missing, what a failure ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from innet.cluster.control.controller import Controller
from innet.errors import ControlError, HostTaken
from innet.node.control.controller_socket import ControllerClient
from innet.node.control.jobs import Job
from innet.security import JobTrust
from innet.topology import load_topology

NODES = ("h0", "h1", "h2")


class Messages:
    """Stands in for the control sockets of all nodes, and keeps what they are told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, dict[str, Any]]] = []
        self._changed = threading.Condition()

    def connect(self, node: str) -> Any:
        messages = self

        class Client:
            def ask(self, method: str, timeout_s: float = 0.0, **params: Any) -> None:
                with messages._changed:
                    messages.told.append((node, method, params))
                    messages._changed.notify_all()

            def __enter__(self) -> Client:
                return self

            def __exit__(self, *_: object) -> None:
                pass

        return Client()

    def wait_for(self, method: str, count: int) -> dict[str, dict[str, Any]]:
        """What each node was told by ``method``, once ``count`` nodes were."""

        def found() -> dict[str, dict[str, Any]]:
            return {node: params for node, said, params in self.told if said == method}

        with self._changed:
            assert self._changed.wait_for(lambda: len(found()) >= count, 30)
            return found()


@pytest.fixture
def messages() -> Messages:
    return Messages()


@pytest.fixture
def controller(tmp_path: Path, messages: Messages) -> Iterator[Controller]:
    with Controller(load_topology("star:3"), tmp_path / "c.ctl", messages.connect) as made:
        open_job(made, NODES)
        yield made


def open_job(controller: Controller, hosts: Sequence[str], name: str | None = None) -> Job:
    job = controller.admit_job(name, hosts)
    controller.open_job(job, JobTrust(signing=None, trusted=()))
    return job


def join_all(controller: Controller, name: str = "g0", nodes: tuple[str, ...] = NODES) -> int:
    for node in nodes:
        answer = controller.join_group(name, "inc", nodes, node)
    assert answer["missing"] == []
    number: int = answer["number"]
    return number


def test_an_answer_names_the_ranks_that_have_not_come(controller):
    assert controller.join_group("g0", "inc", ["h2", "h0"], "h2")["missing"] == [1]
    assert controller.join_group("g0", "inc", ["h2", "h0"], "h0")["missing"] == []


def test_a_group_is_ready_when_all_its_ranks_answer_for_their_names(controller):
    number = join_all(controller)
    assert controller.ready_group("g0", number, "h1")["missing"] == [0, 2]
    assert controller.ready_group("g0", number, "h0")["missing"] == [2]
    assert controller.ready_group("g0", number, "h2")["missing"] == []
    controller.leave_group("g0", number, "h2")
    assert controller.ready_group("g0", number, "h1") == {"missing": [], "failure": None}


def test_who_waits_for_a_failed_rank_to_get_ready_hears_of_it(controller):
    number = join_all(controller)
    assert controller.ready_group("g0", number, "h0")["missing"] == [1, 2]
    controller.fail("h1", "was killed")
    failure = controller.ready_group("g0", number, "h0")["failure"]
    assert failure == {"why": "rank 1 (h1) was killed", "rank": 1}


def test_who_hears_late_that_all_were_ready_learns_of_a_failure_by_its_operations(controller):
    number = join_all(controller)
    for node in NODES:
        controller.ready_group("g0", number, node)
    controller.fail("h1", "was killed")
    assert controller.ready_group("g0", number, "h2") == {"missing": [], "failure": None}
    assert controller.group_failure("g0", number) == {"why": "rank 1 (h1) was killed", "rank": 1}


def test_nobody_waits_for_a_rank_that_left_or_ended_before_it_was_ready(controller):
    number = join_all(controller)
    controller.leave_group("g0", number, "h1")
    with pytest.raises(ControlError, match=r"rank 1 \(h1\) left group 'g0' before all its ranks"):
        controller.ready_group("g0", number, "h0")
    pair = join_all(controller, "pair", ("h0", "h2"))
    controller.end("h2")
    with pytest.raises(ControlError, match=r"rank 1 \(h2\) ended"):
        controller.ready_group("pair", pair, "h0")


def test_all_members_that_disagree_are_told_so_once(controller):
    controller.join_group("g0", "inc", ["h0", "h1"], "h0")
    said = r"rank 0 \(h1\) joins it with nodes=h1,h0, and rank 0 \(h0\) with nodes=h0,h1;"
    with pytest.raises(ControlError, match=said):
        controller.join_group("g0", "inc", ["h1", "h0"], "h1")
    with pytest.raises(ControlError, match=said):
        controller.join_group("g0", "inc", ["h0", "h1"], "h0")
    assert controller.join_group("g0", "inc", ["h0", "h1"], "h0")["missing"] == [1]
    assert controller.join_group("g0", "inc", ["h0", "h1"], "h1")["missing"] == []


def test_who_comes_after_others_disagreed_on_the_algorithm_hears_so_at_once(controller):
    controller.join_group("g0", "inc", NODES, "h0")
    said = r"rank 1 \(h1\) joins it with algorithm=ring, and rank 0 \(h0\) with algorithm=inc;"
    for node, algorithm in (("h1", "ring"), ("h2", "inc"), ("h0", "inc")):
        with pytest.raises(ControlError, match=said):
            controller.join_group("g0", algorithm, NODES, node)
    join_all(controller)


def test_another_process_of_a_rank_hears_nothing_of_an_old_disagreement(controller):
    controller.join_group("g0", "inc", NODES, "h0")
    with pytest.raises(ControlError, match="ranks disagree"):
        controller.join_group("g0", "ring", NODES, "h1")
    controller.attach("h2", os.getpid())
    assert controller.join_group("g0", "inc", NODES, "h2")["missing"] == [0, 1]


def test_groups_without_a_common_member_may_share_a_name(controller):
    pair = controller.join_group("g0", "inc", ["h0", "h1"], "h0")
    alone = controller.join_group("g0", "inc", ["h2"], "h2")
    assert alone["missing"] == []
    assert set(pair["plans"]).isdisjoint(alone["plans"])


def test_a_failure_ends_the_groups_of_that_process_alone(controller, messages):
    join_all(controller, "all")
    join_all(controller, "pair", ("h2", "h0"))
    controller.fail("h1", "was killed")
    assert [group["name"] for group in controller.groups()] == ["pair"]
    told = messages.wait_for("fail_group", 2)
    assert set(told) == {"h0", "h2"}
    assert told["h0"]["why"] == "rank 1 (h1) was killed"


def test_a_forming_group_waits_for_a_successor_until_none_will_come(controller):
    join_all(controller)
    controller.fail("h1", "was killed")
    assert controller.join_group("g0", "inc", NODES, "h0")["missing"] == [1, 2]
    controller.lose("h1", "was killed")
    with pytest.raises(ControlError, match=r"rank 1 \(h1\) was killed"):
        controller.join_group("g0", "inc", NODES, "h0")
    controller.attach("h1", os.getpid())
    assert controller.join_group("g0", "inc", NODES, "h1")["missing"] == [2]


def test_a_group_made_again_has_other_names(controller):
    first = controller.join_group("g0", "inc", ["h0"], "h0")
    assert controller.leave_group("g0", first["number"], "h0") == {"missing": []}
    again = controller.join_group("g0", "inc", ["h0"], "h0")
    assert set(first["plans"]).isdisjoint(again["plans"])


def test_who_left_joins_the_next_group_while_others_use_the_last(controller, messages):
    number = join_all(controller)
    assert controller.leave_group("g0", number, "h0")["missing"] == [1, 2]
    assert controller.join_group("g0", "inc", NODES, "h0")["number"] == number + 1
    controller.leave_group("g0", number, "h1")
    assert controller.leave_group("g0", number, "h2")["missing"] == []
    told = messages.wait_for("end_group", 3)
    assert {params["number"] for params in told.values()} == {number}


def test_the_end_of_an_attached_process_ends_its_groups(controller, messages):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    controller.attach("h1", process.pid)
    join_all(controller)
    assert controller.present() == ["h1"]
    process.kill()
    process.communicate()
    assert "ended without closing its worker" in messages.wait_for("fail_group", 2)["h0"]["why"]
    assert controller.present() == []


def test_the_end_of_a_process_that_is_told_late_is_not_held_against_its_successor(controller):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    controller.attach("h1", process.pid)
    with controller._lock:  # so that nobody can be told of the end before the successor comes
        process.kill()
        process.communicate()
        while controller._attendance.present():
            pass
        controller.attach("h1", os.getpid())
    controller.attach("h2", os.getpid())
    assert controller.failures() == []


def test_a_host_has_one_process_until_that_has_ended_or_detached(controller):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    controller.attach("h1", process.pid)
    join_all(controller)
    with pytest.raises(HostTaken, match=f"process {process.pid} has the node of h1.*alone"):
        controller.attach("h1", os.getpid())
    assert len(controller.groups()) == 1  # the process that was refused has changed nothing
    again = controller.attach("h1", process.pid)
    controller.detach("h1", again)
    detached = controller.attach("h1", os.getpid())
    controller.detach("h1", detached)
    controller.attach("h1", process.pid)
    process.kill()
    process.communicate()
    controller.attach("h1", os.getpid())


def test_an_earlier_process_cannot_fail_its_successor(controller):
    first = controller.attach("h1", os.getpid())
    second = controller.attach("h1", os.getpid())
    assert second == first + 1
    join_all(controller)
    controller.fail_incarnation("h1", first, "late news")
    assert len(controller.groups()) == 1
    controller.detach("h1", first)
    assert controller.present() == ["h1"]


def test_who_is_in_no_group_cannot_name_the_cause_of_its_end(controller):
    pair = join_all(controller, "pair", ("h0", "h1"))
    stranger = controller.attach("h2", os.getpid())
    controller.fail_incarnation("h2", stranger, "was killed", [("pair", pair, "rank 0 is gone", 0)])
    assert len(controller.groups()) == 1


def test_a_client_may_be_used_by_many_threads(controller, tmp_path):
    answers: list[Any] = []
    with ControllerClient(tmp_path / "c.ctl") as client:
        threads = [
            threading.Thread(target=lambda: answers.append(client.ask("groups"))) for _ in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [[]] * 16


@pytest.fixture
def spines(tmp_path: Path, messages: Messages) -> Iterator[Controller]:
    topology = load_topology("leaf-spine:2x2x1")
    with Controller(topology, tmp_path / "c.ctl", messages.connect) as made:
        open_job(made, topology.hosts)
        yield made


def roots_told(messages: Messages, count: int) -> set[str]:
    told = messages.wait_for("place_group", count)
    (plan,) = told["h0"]["plans"].values()
    return {node for _, node in plan["roots"]}


def test_a_lost_switch_hands_its_sums_on_and_gets_them_back(spines, messages):
    join_all(spines, nodes=("h0", "h1"))
    spines.lose_switch("spine0", "spine0 was killed", returns=False)
    assert roots_told(messages, 2) == {"spine1"}
    (late,) = spines.join_group("late", "inc", ["h0", "h1"], "h0")["plans"].values()
    assert {rule["node"] for rule in late["rules"]} == {"spine1"}
    messages.told.clear()
    spines.restore_switch("spine0")
    assert roots_told(messages, 2) == {"spine0", "spine1"}
    assert "spine0" in messages.wait_for("install_group", 2), "it has forgotten its rules"
    said = [method for node, method, _ in messages.told if node == "spine0"]
    assert said.index("install_job") < said.index("install_group"), "and whose they are"


def test_who_is_no_switch_is_neither_lost_nor_restored(spines, messages):
    messages.told.clear()
    for name in ("nosuch", "h0"):
        with pytest.raises(ControlError, match=f"'{name}'; there are .*spine0"):
            spines.lose_switch(name, "a slip", returns=False)
        with pytest.raises(ControlError, match=f"'{name}'; there are .*spine0"):
            spines.restore_switch(name)
    assert messages.told == [], "nothing changes for anybody"


def test_routes_lead_round_a_lost_switch(spines, messages):
    before = spines.routes("leaf0")
    spines.lose_switch("spine0", "spine0 was killed", returns=True)
    after = messages.wait_for("set_routes", 3)["leaf0"]["routes"]
    assert after.keys() == before.keys() - {"spine0"}
    assert {after["leaf1"], after["h1"]} == {before["spine1"]}


def test_a_group_without_a_path_ends_unless_the_switch_returns(controller, messages):
    number = join_all(controller)
    controller.lose_switch("s0", "s0 was killed", returns=True)
    assert controller.group_failure("g0", number) is None
    assert controller.ready_group("g0", number, "h0")["failure"] is None
    controller.lose_switch("s0", "s0 was killed", returns=False)
    why = controller.ready_group("g0", number, "h0")["failure"]["why"]
    assert why == "switch s0 was killed; no other path leads from h0 to h1, h2"
    assert set(messages.wait_for("fail_group", 3)) == set(NODES)
    with pytest.raises(ControlError, match="switch s0 was killed"):
        controller.join_group("g1", "inc", NODES, "h0")


def test_survivors_of_one_failure_after_the_other_come_to_one_group(controller):
    first = join_all(controller)
    controller.fail("h2", "was killed")
    early = controller.shrink_group("g0", first, "h0")
    assert (early["ranks"], early["missing"]) == (["h0", "h1"], [1])
    late = controller.shrink_group("g0", first, "h1")
    assert (late["number"], late["missing"]) == (early["number"], [])
    assert controller.ready_group("g0", late["number"], "h1")["missing"] == [0]
    controller.fail("h0", "was killed, too")
    # h1 may have come as far as the second group, or still be asked after the first.
    answers = [controller.shrink_group("g0", number, "h1") for number in (first, late["number"])]
    assert answers[0] == answers[1]
    assert (answers[0]["ranks"], answers[0]["missing"]) == (["h1"], [])
    assert controller.ready_group("g0", answers[0]["number"], "h1")["missing"] == []


def test_who_fails_before_the_survivors_have_met_is_left_out(controller):
    first = join_all(controller)
    controller.fail("h2", "was killed")
    forming = controller.shrink_group("g0", first, "h0")
    controller.fail("h1", "was killed before it came")
    again = controller.shrink_group("g0", first, "h0")
    assert again["number"] > forming["number"]
    assert (again["ranks"], again["missing"]) == (["h0"], [])
    failure = controller.ready_group("g0", forming["number"], "h0")["failure"]
    assert "rank 1 (h1) ended before the group had come about" in failure["why"]


def test_a_successor_is_no_survivor(controller):
    first = join_all(controller)
    controller.fail("h2", "was killed")
    controller.attach("h2", os.getpid())
    assert controller.shrink_group("g0", first, "h0")["ranks"] == ["h0", "h1"]
    with pytest.raises(ControlError, match="h2 is not among the survivors"):
        controller.shrink_group("g0", first, "h2")


def test_a_group_shrinks_when_a_rank_has_failed_or_left_and_else_not(controller):
    number = join_all(controller)
    with pytest.raises(ControlError, match="no rank of group 'g0' has failed or left"):
        controller.shrink_group("g0", number, "h0")
    controller.leave_group("g0", number, "h1")
    assert controller.shrink_group("g0", number, "h0")["ranks"] == ["h0", "h2"]


def test_who_heard_first_that_a_rank_has_left_goes_on_without_it(controller):
    number = join_all(controller)
    with pytest.raises(ControlError, match="no rank of group 'g0' has failed or left"):
        controller.shrink_group("g0", number, "h0", ("nobody is known to have failed", None))
    made = controller.shrink_group("g0", number, "h0", ("rank 1 (h1) left the group", 1))
    assert made["ranks"] == ["h0", "h2"]
    # It comes to say so itself, and another asks who has heard of it from the controller.
    assert controller.leave_group("g0", number, "h1")["missing"] == []
    assert controller.shrink_group("g0", number, "h2")["ranks"] == ["h0", "h2"]
    with pytest.raises(ControlError, match="h1 is not among the survivors"):
        controller.shrink_group("g0", number, "h1")


def test_survivors_are_not_to_ask_the_dead_for_their_sums(controller):
    for node in NODES:
        number = controller.join_group("g0", "ps:server=h2", NODES, node)["number"]
    controller.fail("h2", "was killed")
    for node in ("h0", "h1"):
        with pytest.raises(ControlError, match="makes sums on h2, whose process is gone"):
            controller.shrink_group("g0", number, node)
