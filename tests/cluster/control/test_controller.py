"""The controller's decisions on groups: who is in them, who is missing, what a failure ends."""

from __future__ import annotations

import pytest

from innet.cluster.control.controller import Controller
from innet.cluster.control.jobs import LaunchRecord
from innet.errors import ControlError, HostTaken, NoAnswer, RankFailed
from innet.node.messages import WorkerReport
from innet.topology import load_topology
from tests.cluster.control.hand_driven import HandDriven

NODES = ("h0", "h1", "h2")


@pytest.fixture
def controller() -> HandDriven:
    made = HandDriven(Controller(load_topology("star:3")))
    made.open_job(NODES)
    return made


def join_all(controller: HandDriven, name: str = "g0", nodes: tuple[str, ...] = NODES) -> int:
    for node in nodes * 2:  # each asks until nobody is missing
        answer = controller.join_group(name, "inc", nodes, node)
    assert answer["missing"] == []
    number: int = answer["number"]
    return number


def test_the_reply_names_the_ranks_that_have_not_joined(controller):
    assert controller.join_group("g0", "inc", ["h2", "h0"], "h2")["missing"] == [1]
    assert controller.join_group("g0", "inc", ["h2", "h0"], "h0")["missing"] == []


def test_a_group_is_ready_when_all_ranks_serve_their_names(controller):
    number = join_all(controller)
    assert controller.ready_group("g0", number, "h1")["missing"] == [0, 2]
    assert controller.ready_group("g0", number, "h0")["missing"] == [2]
    assert controller.ready_group("g0", number, "h2")["missing"] == []
    controller.leave_groups([("g0", number)], "h2")
    assert controller.ready_group("g0", number, "h1") == {"missing": [], "failure": None}


def test_waiting_for_a_failed_rank_to_become_ready_fails(controller):
    number = join_all(controller)
    assert controller.ready_group("g0", number, "h0")["missing"] == [1, 2]
    controller.fail_node("h1", "was killed")
    failure = controller.ready_group("g0", number, "h0")["failure"]
    assert failure == {"why": "rank 1 (h1) was killed", "rank": 1}


def test_a_ready_request_after_a_failure_still_reports_all_ranks_ready(controller):
    number = join_all(controller)
    for node in NODES:
        controller.ready_group("g0", number, node)
    controller.fail_node("h1", "was killed")
    assert controller.ready_group("g0", number, "h2") == {"missing": [], "failure": None}
    assert controller.group_failure("g0", number, "h0") == {
        "why": "rank 1 (h1) was killed",
        "rank": 1,
    }


def test_waiting_for_a_rank_that_left_or_ended_before_it_was_ready_fails(controller):
    number = join_all(controller)
    controller.leave_groups([("g0", number)], "h1")
    with pytest.raises(ControlError, match=r"rank 1 \(h1\) left group 'g0' before all its ranks"):
        controller.ready_group("g0", number, "h0")
    pair = join_all(controller, "pair", ("h0", "h2"))
    controller.end_node("h2")
    failure = controller.ready_group("pair", pair, "h0")["failure"]
    assert failure == {"why": "rank 1 (h2) ended without closing its worker", "rank": 1}


def test_all_members_receive_a_disagreement_once(controller):
    controller.join_group("g0", "inc", ["h0", "h1"], "h0")
    said = r"rank 0 \(h1\) joins it with nodes=h1,h0, and rank 0 \(h0\) with nodes=h0,h1;"
    with pytest.raises(ControlError, match=said):
        controller.join_group("g0", "inc", ["h1", "h0"], "h1")
    with pytest.raises(ControlError, match=said):
        controller.join_group("g0", "inc", ["h0", "h1"], "h0")
    assert controller.join_group("g0", "inc", ["h0", "h1"], "h0")["missing"] == [1]
    assert controller.join_group("g0", "inc", ["h0", "h1"], "h1")["missing"] == []


def test_a_member_that_joins_after_a_disagreement_is_refused_at_once(controller):
    controller.join_group("g0", "inc", NODES, "h0")
    said = r"rank 1 \(h1\) joins it with algorithm=ring, and rank 0 \(h0\) with algorithm=inc;"
    for node, algorithm in (("h1", "ring"), ("h2", "inc"), ("h0", "inc")):
        with pytest.raises(ControlError, match=said):
            controller.join_group("g0", algorithm, NODES, node)
    join_all(controller)


def test_the_next_process_of_a_rank_does_not_receive_an_old_disagreement(controller):
    controller.join_group("g0", "inc", NODES, "h0")
    with pytest.raises(ControlError, match="ranks disagree"):
        controller.join_group("g0", "ring", NODES, "h1")
    controller.fail_node("h2", "was killed")
    controller.attach("h2", 1)
    assert controller.join_group("g0", "inc", NODES, "h2")["missing"] == [0, 1]


def test_the_first_process_of_a_rank_receives_an_earlier_disagreement(controller):
    controller.join_group("g0", "inc", NODES, "h0")
    with pytest.raises(ControlError, match="ranks disagree"):
        controller.join_group("g0", "ring", NODES, "h1")
    controller.attach("h2", 1)
    with pytest.raises(ControlError, match="ranks disagree"):
        controller.join_group("g0", "inc", NODES, "h2")


def test_groups_without_a_common_member_may_share_a_name(controller):
    pair = controller.join_group("g0", "inc", ["h0", "h1"], "h0")
    alone = controller.join_group("g0", "inc", ["h2"], "h2")
    assert alone["missing"] == []
    assert set(pair["plans"]).isdisjoint(alone["plans"])


def test_a_failure_ends_only_the_groups_of_that_process(controller):
    join_all(controller, "all")
    join_all(controller, "pair", ("h2", "h0"))
    controller.fail_node("h1", "was killed")
    assert [group["name"] for group in controller.groups()] == ["pair"]
    told = controller.told_by("fail_group")
    assert set(told) == {"h0", "h2"}
    assert told["h0"]["why"] == "rank 1 (h1) was killed"


def test_a_forming_group_waits_for_a_successor_while_one_can_come(controller):
    join_all(controller)
    controller.fail_node("h1", "was killed")
    assert controller.join_group("g0", "inc", NODES, "h0")["missing"] == [1, 2]
    controller.lose_node("h1", "was killed")
    with pytest.raises(ControlError, match=r"rank 1 \(h1\) was killed"):
        controller.join_group("g0", "inc", NODES, "h0")
    controller.attach("h1", 1)
    assert controller.join_group("g0", "inc", NODES, "h1")["missing"] == [2]


def test_waiting_for_members_to_join_fails_with_the_rank_that_failed(controller):
    for node in NODES:
        controller.join_group("g0", "inc", NODES, node)
    controller.lose_node("h1", "was killed")  # h0 asks again, and has not heard that all joined
    with pytest.raises(RankFailed, match=r"rank 1 \(h1\) was killed") as failure:
        controller.join_group("g0", "inc", NODES, "h0")
    assert failure.value.rank == 1
    with pytest.raises(ControlError, match=r"rank 1 \(h1\) was killed"):
        controller.join_group("g0", "inc", NODES, "h0")


def test_an_expelled_or_lost_process_is_killed_unless_another_launcher_started_it(controller):
    for node, is_attached in (("h0", True), ("h1", True), ("h2", False)):
        controller.attach(node, 11, is_attached=is_attached)
    controller.expel("h1", "h0", "hangs")
    controller.lose_node("h1", "ended without closing its worker")
    assert controller.killed == []
    controller.expel("h1", "h2", "hangs")
    assert controller.killed == ["h2"]
    assert set(controller.failures()) == set(NODES)
    ends = [report.text.rpartition("; ")[2] for report in controller.reports]
    assert ends == ["it is left to the launcher that started it", "it is killed"]


def test_the_end_of_a_job_kills_no_process_of_another_launcher(controller):
    controller.attach("h0", 11, is_attached=True)
    controller.attach("h1", 12)
    controller.close_job(controller.job)
    assert "h0" not in controller.killed
    assert "h1" in controller.killed


def test_a_controller_that_starts_again_still_kills_no_process_of_another_launcher(controller):
    worker = WorkerReport(
        node="h1", pid=11, incarnation=1, failed=None, is_attached=True, groups=[]
    )
    successor = HandDriven(
        Controller(load_topology("star:3"), record=LaunchRecord(generation=1)),
        lambda node, method, _params: (
            worker.model_dump() if (node, method) == ("h1", "memberships") else None
        ),
    )
    successor.expel("h1", "h1", "hangs")
    assert successor.killed == []


def test_the_failure_of_a_process_on_a_lost_machine_names_the_machine(controller):
    controller.attach("h1", 11)
    join_all(controller)
    controller.end_process("h1", why="was on machine m1, which has left")
    why = controller.told_by("fail_group")["h0"]["why"]
    assert why == "rank 1 (h1) was on machine m1, which has left (process 11)"


def test_a_request_waits_for_the_one_before_it_and_for_the_switches_that_it_needs(controller):
    controller.held = []
    first = controller.request("join_group", group="g", algorithm="inc", ranks=NODES, node="h0")
    second = controller.request("groups")
    assert not controller.has_reply(first)
    assert not controller.has_reply(second)
    controller.release()
    assert controller.reply(first)["missing"] == [1, 2]
    assert [group["name"] for group in controller.reply(second)] == ["g"]


def test_a_group_is_not_formed_without_a_switch_that_it_needs(controller):
    controller.silent = {"s0"}
    with pytest.raises(NoAnswer, match="s0 did not answer 'install_group'"):
        controller.join_group("g0", "inc", NODES, "h0")
    assert controller.groups() == []


def test_unknown_methods_and_wrong_parameters_are_refused(controller):
    with pytest.raises(ControlError, match="unknown method 'nosuch'; known: admit_job, "):
        controller.reply(controller.request("nosuch"))
    with pytest.raises(TypeError, match="unexpected keyword argument 'nosuch'"):
        controller.reply(controller.request("ping", nosuch=1))


def test_a_group_formed_again_has_new_names(controller):
    first = controller.join_group("g0", "inc", ["h0"], "h0")
    assert controller.leave_groups([("g0", first["number"])], "h0") == [[]]
    again = controller.join_group("g0", "inc", ["h0"], "h0")
    assert set(first["plans"]).isdisjoint(again["plans"])


def test_a_rank_that_left_joins_the_next_group_while_others_use_the_last(controller):
    number = join_all(controller)
    assert controller.leave_groups([("g0", number)], "h0") == [[1, 2]]
    assert controller.join_group("g0", "inc", NODES, "h0")["number"] == number + 1
    controller.leave_groups([("g0", number)], "h1")
    assert controller.leave_groups([("g0", number)], "h2") == [[]]
    told = controller.told_by("end_group")
    assert {params["number"] for params in told.values()} == {number}


def test_the_end_of_an_attached_process_ends_its_groups(controller):
    controller.attach("h1", 11)
    join_all(controller)
    assert controller.present() == ["h1"]
    controller.end_process("h1")
    why = controller.told_by("fail_group")["h0"]["why"]
    assert why == "rank 1 (h1) ended without closing its worker (process 11)"
    assert controller.present() == []


def test_the_launcher_reports_how_a_supervised_process_ended(controller):
    controller.attach("h1", 11)
    number = join_all(controller)
    controller.end_process("h1", is_supervised=True)
    assert controller.present() == []
    assert controller.group_failure("g0", number, "h0") is None
    controller.lose_node("h1", "exited with code 3")
    assert controller.told_by("fail_group")["h0"]["why"] == "rank 1 (h1) exited with code 3"


def test_a_late_report_of_a_process_end_does_not_fail_its_successor(controller):
    first = controller.attach("h1", 11)
    controller.detach("h1", first)
    second = controller.attach("h1", 12)
    controller.controller.on_process_ended("h1", first, 1.0, is_supervised=False)
    assert not controller.failures()
    assert controller.watched["h1"].incarnation == second


def test_a_host_accepts_one_process_until_it_ends_or_detaches(controller):
    controller.attach("h1", 11)
    join_all(controller)
    with pytest.raises(HostTaken, match=r"process 11 has the node of h1.*alone"):
        controller.attach("h1", 12)
    assert len(controller.groups()) == 1  # the process that was refused has changed nothing
    again = controller.attach("h1", 11)
    controller.detach("h1", again)
    detached = controller.attach("h1", 12)
    controller.detach("h1", detached)
    controller.attach("h1", 11)
    controller.end_process("h1")
    controller.attach("h1", 12)


def test_an_earlier_process_cannot_fail_its_successor(controller):
    first = controller.attach("h1", 1)
    second = controller.attach("h1", 1)
    assert second == first + 1
    join_all(controller)
    controller.fail("h1", first, "late news")
    assert len(controller.groups()) == 1
    controller.detach("h1", first)
    assert controller.present() == ["h1"]


def test_a_process_without_a_group_cannot_report_a_cause(controller):
    pair = join_all(controller, "pair", ("h0", "h1"))
    stranger = controller.attach("h2", 1)
    controller.fail("h2", stranger, "was killed", [("pair", pair, "rank 0 is gone", 0)])
    assert len(controller.groups()) == 1


@pytest.fixture
def spines() -> HandDriven:
    topology = load_topology("leaf-spine:2x2x1")
    made = HandDriven(Controller(topology))
    made.open_job(topology.hosts)
    return made


def roots_told(spines: HandDriven) -> set[str]:
    (plan,) = spines.told_by("place_group")["h0"]["plans"].values()
    return {node for _, node in plan["roots"]}


def test_sums_of_a_lost_switch_move_and_return(spines):
    join_all(spines, nodes=("h0", "h1"))
    spines.lose_switch("spine0", "spine0 was killed", returns=False)
    assert roots_told(spines) == {"spine1"}
    (late,) = spines.join_group("late", "inc", ["h0", "h1"], "h0")["plans"].values()
    assert {rule["node"] for rule in late["rules"]} == {"spine1"}
    spines.told.clear()
    spines.restore_switch("spine0")
    assert roots_told(spines) == {"spine0", "spine1"}
    assert "spine0" in spines.told_by("install_group"), "it has forgotten its rules"
    said = [method for node, method, _ in spines.told if node == "spine0"]
    assert said.index("install_job") < said.index("install_group"), "and whose they are"


def test_only_switches_are_lost_and_restored(spines):
    spines.told.clear()
    for name in ("nosuch", "h0"):
        with pytest.raises(ControlError, match=f"'{name}'; there are .*spine0"):
            spines.lose_switch(name, "a slip", returns=False)
        with pytest.raises(ControlError, match=f"'{name}'; there are .*spine0"):
            spines.restore_switch(name)
    assert spines.told == [], "nothing changes for anybody"


def test_routes_avoid_a_lost_switch(spines):
    before = spines.routes("leaf0")
    spines.lose_switch("spine0", "spine0 was killed", returns=True)
    after = spines.told_by("set_routes")["leaf0"]["routes"]
    assert after.keys() == before.keys() - {"spine0"}
    assert {after["leaf1"], after["h1"]} == {before["spine1"]}


def test_a_group_without_a_path_ends_unless_the_switch_returns(controller):
    number = join_all(controller)
    controller.lose_switch("s0", "s0 was killed", returns=True)
    assert controller.group_failure("g0", number, "h0") is None
    assert controller.ready_group("g0", number, "h0")["failure"] is None
    controller.lose_switch("s0", "s0 was killed", returns=False)
    why = controller.ready_group("g0", number, "h0")["failure"]["why"]
    assert why == "switch s0 was killed; no other path leads from h0 to h1, h2"
    assert set(controller.told_by("fail_group")) == set(NODES)
    with pytest.raises(ControlError, match="switch s0 was killed"):
        controller.join_group("g1", "inc", NODES, "h0")


def test_survivors_of_successive_failures_form_one_group(controller):
    first = join_all(controller)
    controller.fail_node("h2", "was killed")
    early = controller.shrink_group("g0", first, "h0")
    assert (early["ranks"], early["missing"]) == (["h0", "h1"], [1])
    late = controller.shrink_group("g0", first, "h1")
    assert (late["number"], late["missing"]) == (early["number"], [])
    assert controller.ready_group("g0", late["number"], "h1")["missing"] == [0]
    controller.fail_node("h0", "was killed, too")
    # h1 may have come as far as the second group, or still be asked after the first.
    answers = [controller.shrink_group("g0", number, "h1") for number in (first, late["number"])]
    assert answers[0] == answers[1]
    assert (answers[0]["ranks"], answers[0]["missing"]) == (["h1"], [])
    assert controller.ready_group("g0", answers[0]["number"], "h1")["missing"] == []


def test_a_rank_that_fails_before_the_survivors_met_is_excluded(controller):
    first = join_all(controller)
    controller.fail_node("h2", "was killed")
    forming = controller.shrink_group("g0", first, "h0")
    controller.fail_node("h1", "was killed before it came")
    again = controller.shrink_group("g0", first, "h0")
    assert again["number"] > forming["number"]
    assert (again["ranks"], again["missing"]) == (["h0"], [])
    failure = controller.ready_group("g0", forming["number"], "h0")["failure"]
    assert "rank 1 (h1) ended before the group had come about" in failure["why"]


def test_a_successor_is_not_a_survivor(controller):
    first = join_all(controller)
    controller.fail_node("h2", "was killed")
    controller.attach("h2", 1)
    assert controller.shrink_group("g0", first, "h0")["ranks"] == ["h0", "h1"]
    with pytest.raises(ControlError, match="h2 is not among the survivors"):
        controller.shrink_group("g0", first, "h2")


def test_a_group_shrinks_only_when_a_rank_failed_or_left(controller):
    number = join_all(controller)
    with pytest.raises(ControlError, match="no rank of group 'g0' has failed or left"):
        controller.shrink_group("g0", number, "h0")
    controller.leave_groups([("g0", number)], "h1")
    assert controller.shrink_group("g0", number, "h0")["ranks"] == ["h0", "h2"]


def test_the_first_rank_to_learn_of_a_leave_shrinks_the_group(controller):
    number = join_all(controller)
    with pytest.raises(ControlError, match="no rank of group 'g0' has failed or left"):
        controller.shrink_group("g0", number, "h0", ("nobody is known to have failed", None))
    made = controller.shrink_group("g0", number, "h0", ("rank 1 (h1) left the group", 1))
    assert made["ranks"] == ["h0", "h2"]
    # It comes to say so itself, and another asks who has heard of it from the controller.
    assert controller.leave_groups([("g0", number)], "h1") == [[]]
    assert controller.shrink_group("g0", number, "h2")["ranks"] == ["h0", "h2"]
    with pytest.raises(ControlError, match="h1 is not among the survivors"):
        controller.shrink_group("g0", number, "h1")


def test_plans_of_survivors_do_not_use_the_dead(controller):
    for node in NODES:
        number = controller.join_group("g0", "ps:server=h2", NODES, node)["number"]
    controller.fail_node("h2", "was killed")
    for node in ("h0", "h1"):
        with pytest.raises(ControlError, match="makes sums on h2, whose process is gone"):
            controller.shrink_group("g0", number, node)
