"""Each thing that the doctor knows: found where it is, and not where it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from innet.cluster.emulation.recorded_parts import RecordedEnd, RecordedMachine
from innet.cluster.emulation.runs import ProcessIdentity
from innet.cluster.process_states import ProcessState
from innet.cluster.run_state import STARTING_S
from innet.observe.doctor import needs_longer_look
from innet.observe.doctor.checks.routes import MissingRoute
from innet.topology import Topology

from .states import RATE_BYTES, START_S, TOPOLOGY, State


def test_a_healthy_run_has_no_findings() -> None:
    state = State()
    for node, peer in (("h0", "s0"), ("h1", "s0"), ("s0", "h0"), ("s0", "h1")):
        state.send(node, peer)
    assert state.examine() == []


def without_process(state: State, node: str) -> None:
    """Let a node have no process at both looks."""
    state.before.pop(node, None)
    state.after.pop(node, None)
    del state.processes[node]
    state.processes_after.pop(node, None)


KILLED = "was killed by signal 9 (SIGKILL)"


def test_a_lost_switch_is_named_with_how_it_ended() -> None:
    state = State()
    without_process(state, "s0")
    assert (state.only_finding().check, state.only_finding().subject) == ("lost_node", "s0")
    state.ends["s0"] = RecordedEnd(why=KILLED, at_s=START_S - 3)
    assert f"its process {KILLED} 4 seconds ago" in state.only_finding().problem


def test_a_switch_that_is_started_again_is_no_lost_one() -> None:
    state = State()
    without_process(state, "s0")
    state.ends["s0"] = RecordedEnd(why=KILLED, at_s=START_S - 3, returns=True, restarts=1)
    finding = state.only_finding()
    assert finding.check == "restarting_node"
    assert f"s0 {KILLED} 4 seconds ago; the launcher is starting it again" in finding.problem
    assert "end it" not in finding.remedy


def test_the_successor_that_does_not_answer_yet_is_no_hanging_process() -> None:
    state = State()
    del state.before["s0"], state.after["s0"]  # it runs, and its socket may be there
    state.ends["s0"] = RecordedEnd(why=KILLED, at_s=START_S - 1, returns=True, restarts=1)
    assert state.only_finding().check == "restarting_node"


def test_a_restarted_switch_is_a_note_until_it_keeps_ending() -> None:
    state = State()
    end = RecordedEnd(why=KILLED, at_s=START_S - 9, returns=True, restarts=1, back_s=START_S - 8)
    state.ends["s0"] = end
    assert (state.only_finding().check, state.only_finding().level) == ("restarted_node", "note")
    state.ends["s0"] = end.model_copy(update={"restarts": 3})
    assert (state.only_finding().check, state.only_finding().level) == (
        "restarting_node",
        "problem",
    )
    state.ends["s0"] = end.model_copy(update={"at_s": START_S - 100})
    assert state.examine() == []


def test_a_lost_member_of_a_group_is_named_and_a_host_without_a_job_is_not() -> None:
    state = State()
    without_process(state, "h1")
    assert [(f.check, f.subject) for f in state.examine()] == [("lost_node", "h1")]
    state.groups = []
    assert state.examine() == []


def test_a_state_of_one_look_is_no_finding() -> None:
    """Between two looks a process may end, be replaced, or be held by a debugger for a moment."""
    state = State()
    del state.after["h1"]
    assert state.examine() == []
    del state.processes_after["h1"]
    assert state.examine() == []
    state.processes_after["h0"] = ProcessState(stopped=True)
    assert state.examine() == []


def test_a_silent_node_is_named_with_its_process_and_machine() -> None:
    state = State()
    del state.before["s0"], state.after["s0"]
    for peer in ("h0", "h1"):
        state.face(peer, "s0")["silent"] = True
    assert "runs and does not answer: no answer" in state.only_finding().problem
    assert "end it" in state.only_finding().remedy
    state.started_s = START_S - 5
    assert "end it" not in state.only_finding().remedy
    here = RecordedMachine(nodes=("h0", "h1"), state="up", since_s=0.0, address="10.0.0.1")
    there = here.model_copy(update={"nodes": ("s0",), "address": "10.0.0.2"})
    state.machines = {"launcher": here, "m1": there}
    assert "on machine m1 (10.0.0.2)" in state.only_finding().remedy


def test_a_node_that_only_its_python_keeps_silent_is_left_alone() -> None:
    state = State()
    del state.before["s0"], state.after["s0"]  # and the hosts receive from it
    assert "holds its Python interpreter" in state.only_finding().problem
    assert "end it" not in state.only_finding().remedy


def test_a_stopped_process_is_named_with_the_command_to_resume_it() -> None:
    state = State()
    for processes in (state.processes, state.processes_after):
        processes["h0"] = ProcessState(stopped=True)
    del state.before["h0"], state.after["h0"]
    finding = state.only_finding()
    assert (finding.check, "h0 is stopped" in finding.problem) == ("stopped_node", True)
    assert "kill -CONT" in finding.remedy


def test_a_dead_launcher_hides_all_other_findings() -> None:
    state = State()
    state.launcher = ProcessIdentity(pid=2**22 - 1, start_ticks=1)
    state.machines = lost_machine()
    state.processes.clear()
    state.processes_after.clear()
    state.after.clear()
    assert state.only_finding().check == "ended_launcher"
    assert "innet down lab" in state.only_finding().remedy


def lost_machine() -> dict[str, RecordedMachine]:
    machine = RecordedMachine(
        nodes=("h1",),
        state="lost",
        since_s=START_S - 6,
        address="10.0.0.3",
        why="machine m1 does not answer for 5 s",
        remedy="Let the machine join again (innet node join ... --name m1)",
        ran=("h1",),
    )
    here = RecordedMachine(nodes=("h0", "s0"), state="up", since_s=START_S - 60)
    return {"launcher": here, "m1": machine}


def test_a_lost_machine_is_one_finding_with_all_that_follows_from_it() -> None:
    state = State()
    state.machines = lost_machine()
    without_process(state, "h1")
    for answers in (state.before, state.after):
        answers["s0"]["routes"] = [["/n/h0", 0, 0]]
        answers["h0"]["operations"] = [waiting(5, "rank 1 (h1)")]
    machine, *others = state.examine()
    assert (machine.check, machine.subject) == ("lost_machine", "m1")
    assert "Machine m1 (10.0.0.3) has been lost for 7 seconds" in machine.problem
    assert "h1 ran there" in machine.problem
    assert machine.remedy.startswith("Let the machine join again")
    assert {(f.check, f.because) for f in others} == {("straggling_rank", "m1")}


def test_a_controller_that_is_not_restarted_is_named() -> None:
    state = State()
    state.ends["controller"] = RecordedEnd(why=KILLED, at_s=START_S)
    assert state.only_finding().check == "lost_controller"
    state.ends["controller"] = RecordedEnd(why=KILLED, at_s=START_S, returns=True)
    assert state.examine() == []


def test_missing_routes_and_late_ranks_follow_from_a_switch_that_is_gone() -> None:
    state = State()
    without_process(state, "s0")
    state.ends["s0"] = RecordedEnd(why=KILLED, at_s=START_S - 1, returns=True, restarts=1)
    for answers in (state.before, state.after):
        answers["h0"]["routes"] = []
        answers["h0"]["operations"] = [waiting(5, "rank 1 (h1)")]
    first, *others = state.examine()
    assert first.check == "restarting_node"
    assert {(f.check, f.because) for f in others} == {
        ("missing_route", "s0"),
        ("straggling_rank", "s0"),
    }


def test_slow_links_of_a_machine_without_processor_follow_from_that() -> None:
    state = State()
    state.processes_after["h0"] = ProcessState(ran_s=0.2, waited_s=0.7)
    for look in ("before", "after"):
        state.face("s0", "h1", look)["port"]["depth_bytes"] = 100_000
    state.face("s0", "h1")["port"]["sent_bytes"] = RATE_BYTES // 4
    starved, slow = state.examine()
    assert (starved.check, slow.check, slow.because) == ("starved_node", "slow_link", "h0")
    assert "iperf3" not in slow.remedy  # the link is memory of this machine
    assert "tc qdisc" not in slow.remedy


def test_switches_that_only_hosts_join_need_no_route_to_each_other() -> None:
    state = State()
    state.processes_after["s1"] = ProcessState()
    for host in ("h0", "h1"):
        state.after[host]["routes"].append(["/n/s1", 1, 0])
    star = TOPOLOGY.model_dump()
    second = {"name": "s1", "kind": "switch"}
    links = [
        {"a": {"node": host, "port": "e1"}, "b": {"node": "s1", "port": host}}
        for host in ("h0", "h1")
    ]
    rails = star | {"nodes": star["nodes"] | {"s1": second}, "links": [*star["links"], *links]}
    seen = replace(state.observation(), topology=Topology.model_validate(rails))
    assert list(MissingRoute().findings(seen)) == []
    state.before["s0"]["routes"].clear()
    state.after["s0"]["routes"].clear()
    (finding,) = MissingRoute().findings(seen)
    assert finding.problem == "s0 has no route to h0, h1."


def test_a_missing_route_is_named_with_node_and_prefix() -> None:
    state = State()
    state.after["s0"]["routes"] = [["/n/h0", 0, 0]]
    assert state.examine() == []  # it may be on its way
    state.before["s0"]["routes"] = [["/n/h0", 0, 0]]
    finding = state.only_finding()
    assert (finding.check, finding.subject) == ("missing_route", "s0")
    assert finding.problem == "s0 has no route to h1."
    state.after["s0"]["node"]["no_route"] = 1
    assert "it has refused 1 Interest for want of one" in state.only_finding().problem


def test_a_prefix_known_only_to_its_node_is_reported_with_the_reason() -> None:
    state = State()
    state.after["h0"]["unannounced"] = {"/j1/x": "these names are a job's own"}
    finding = state.only_finding()
    assert (finding.check, finding.subject) == ("unannounced_prefix", "h0")
    assert "/j1/x, and only programs there find it: these names are a job's own" in finding.problem


def test_a_name_without_a_route_is_reported() -> None:
    state = State()
    state.after["s0"]["node"]["no_route"] = 7
    state.after["s0"]["last_unroutable"] = "/elsewhere/x"
    assert "refused 7 Interests" in state.only_finding().problem
    assert "/elsewhere/x" in state.only_finding().problem
    state.before["s0"]["node"]["no_route"] = 7  # it was long ago
    assert state.examine() == []


@pytest.mark.parametrize(("share", "is_slow"), [(0.4, True), (0.95, False)])
def test_a_link_with_waiting_packets_and_little_traffic_is_slow(
    share: float, is_slow: bool
) -> None:
    state = State()
    for look in ("before", "after"):
        state.face("s0", "h1", look)["port"]["depth_bytes"] = 100_000
    state.face("s0", "h1")["port"]["sent_bytes"] = int(share * RATE_BYTES)
    assert [(f.check, f.subject) for f in state.examine()] == [("slow_link", "s0→h1")] * is_slow
    if is_slow:
        assert "40 Mbit/s" in state.only_finding().problem
        assert "100 Mbit/s" in state.only_finding().problem


def test_an_idle_link_is_not_slow() -> None:
    state = State()
    state.face("s0", "h1")["port"]["sent_bytes"] = 1000
    assert state.examine() == []


def test_a_full_queue_is_reported() -> None:
    state = State()
    for look in ("before", "after"):
        state.face("h0", "s0", look)["port"]["depth_bytes"] = 500 << 10
    state.face("h0", "s0")["port"]["sent_bytes"] = RATE_BYTES
    finding = state.only_finding()
    assert (finding.check, finding.subject) == ("full_queue", "h0→s0")


def test_queue_drops_do_not_count_as_link_losses() -> None:
    state = State()
    state.send("h0", "s0", packets=1000, arrived=900)
    state.face("h0", "s0")["port"]["dropped_queue"] = 100
    finding = state.only_finding()
    assert finding.check == "full_queue"
    assert "100 packets were dropped" in finding.problem


def test_a_path_with_a_reduced_mtu_is_named() -> None:
    state = State()
    state.face("h0", "s0")["send_errors"] += 3
    finding = state.only_finding()
    assert (finding.check, finding.subject) == ("refused_sends", "h0→s0")


@pytest.mark.parametrize("counted", [True, False], ids=["counted", "unheard"])
def test_a_lossy_link_is_named_with_its_share(counted: bool) -> None:
    state = State()
    state.send("h0", "s0", packets=10_000, arrived=9_500)
    if counted:
        state.face("h0", "s0")["port"]["dropped_loss"] = 500
    finding = state.only_finding()
    assert (finding.check, finding.subject) == ("lossy_link", "h0→s0")
    assert "5.0 %" in finding.problem


@pytest.mark.parametrize(("packets", "undecided"), [(60, True), (2000, False)])
def test_a_slow_lossy_link_is_observed_for_longer(packets, undecided) -> None:
    """Few packets are missing: they may wait in a queue; many are lost."""
    state = State()
    state.send("h0", "s0", packets=packets, arrived=packets * 9 // 10)
    assert needs_longer_look(state.observation()) == undecided
    assert (state.examine() == []) == undecided
    healthy = State()
    healthy.send("h0", "s0", packets=packets)
    assert not needs_longer_look(healthy.observation())


def test_a_link_that_both_ends_find_silent_is_cut() -> None:
    state = State()
    state.face("h0", "s0")["silent"] = state.face("s0", "h0")["silent"] = True
    state.face("h0", "s0")["port"]["dropped_queue"] = 100  # which says nothing more
    finding = state.only_finding()
    assert (finding.check, finding.subject) == ("cut_link", "h0--s0")


def test_a_link_that_the_kernel_or_the_controller_reports_is_cut() -> None:
    state = State()
    state.cut = [("h0", "s0")]
    finding = state.only_finding()
    assert (finding.check, finding.subject) == ("cut_link", "h0--s0")


def test_a_link_whose_other_end_has_no_process_is_not_cut() -> None:
    state = State()
    state.face("s0", "h0")["silent"] = True
    assert state.examine() == []


def test_packets_in_flight_do_not_count_as_lost() -> None:
    state = State()
    state.send("h0", "s0", packets=1000, arrived=940)
    assert state.examine() == []


def test_retransmissions_not_explained_by_a_link_are_attributed_to_the_host() -> None:
    state = State()
    state.after["h0"]["endpoint"].update(interests_expressed=1000, retransmissions_by_timeout=80)
    finding = state.only_finding()
    assert (finding.check, finding.subject) == ("lossy_link", "h0")
    assert "80 of 1000" in finding.problem


def test_a_host_with_few_retransmissions_is_observed_for_longer() -> None:
    state = State()
    state.after["h0"]["endpoint"].update(interests_expressed=25, retransmissions_by_gap=4)
    assert state.examine() == []
    assert needs_longer_look(state.observation())


def waiting(number: int, *late: str) -> dict[str, Any]:
    """An operation that a node waits in."""
    return {"number": number, "late": list(late), "missing": "in words"}


def test_a_rank_of_an_unknown_group_is_named_by_its_label() -> None:
    state = State()
    state.groups = []
    for look in (state.before, state.after):
        look["h0"]["operations"] = [waiting(5, "rank 1 (h1)")]
        for answer in look.values():
            answer["uptime_s"] += STARTING_S
    finding = state.only_finding()
    assert finding.subject == "rank 1 (h1)"
    assert "Rank 1 (h1) is late" in finding.problem


def test_a_label_with_capitals_is_kept() -> None:
    state = State()
    for look in (state.before, state.after):
        look["h0"]["operations"] = [waiting(5, "rank 1 (nodeA)")]
    assert "Rank 1 (nodeA) is late" in state.only_finding().problem


def test_only_the_late_rank_of_two_jobs_with_the_same_number_is_named() -> None:
    state = State()
    state.groups.append({"name": "g1", "algorithm": "inc", "ranks": ["h1", "h0"], "joined": [0, 1]})
    for look in (state.before, state.after):
        look["h0"]["operations"] = [waiting(5, "rank 1 (h1)")]
    assert "Rank 1 (h1) is late" in state.only_finding().problem


def test_a_rank_that_is_late_in_both_readings_is_named_with_its_node() -> None:
    state = State()
    for look in (state.before, state.after):
        look["h0"]["operations"] = [waiting(5, "rank 1 (h1)")]
    finding = state.only_finding()
    assert (finding.check, finding.subject) == ("straggling_rank", "rank 1")
    assert "Rank 1 (h1) is late: h0 waited" in finding.problem
    assert "idle" in finding.problem
    state.after["h1"]["cpu_s"] += 0.9
    assert "It computes" in state.only_finding().problem


def test_a_rank_that_waits_has_contributed() -> None:
    state = State()
    for look in (state.before, state.after):
        look["h0"]["operations"] = [waiting(5, "rank 0 (h0)", "rank 1 (h1)")]
    assert state.only_finding().subject == "rank 1"
    for look in (state.before, state.after):
        look["h1"]["operations"] = [waiting(5, "rank 0 (h0)")]
    assert state.examine() == []


def test_a_rank_blocked_by_an_earlier_operation_is_not_named_for_a_later_one() -> None:
    state = State()
    for look in (state.before, state.after):
        look["h0"]["operations"] = [waiting(10, "rank 1 (h1)")]
        look["h1"]["operations"] = [waiting(9)]
    assert state.examine() == []


def test_a_rank_that_is_late_for_different_operations_keeps_up() -> None:
    state = State()
    state.before["h0"]["operations"] = [waiting(5, "rank 0 (h0)", "rank 1 (h1)")]
    state.after["h0"]["operations"] = [waiting(6, "rank 0 (h0)", "rank 1 (h1)")]
    assert state.examine() == []


def test_a_switch_without_slots_is_reported_with_the_number_needed() -> None:
    state = State()
    state.after["s0"]["reducer"].update(refused_no_slot=300, reductions_started=100)
    finding = state.only_finding()
    assert (finding.check, finding.subject) == ("no_free_slot", "s0")
    assert "refused 300 reductions" in finding.problem
    assert "About 32 slots" in finding.remedy  # 8 served a quarter of what came


@pytest.mark.parametrize(
    ("counter", "words"),
    [("malformed_in", "malformed"), ("invalid_signature_in", "not signed correctly")],
)
def test_refused_packets_are_reported_with_their_link(counter: str, words: str) -> None:
    state = State()
    state.face("s0", "h0")[counter] = 3
    finding = state.only_finding()
    assert (finding.check, finding.subject) == ("refused_packets", "h0→s0")
    assert words in finding.problem


def test_a_node_that_waits_for_a_processor_is_reported_as_starved() -> None:
    state = State()
    state.processes_after["h0"] = ProcessState(ran_s=0.2, waited_s=0.7)
    assert (state.only_finding().check, state.only_finding().subject) == ("starved_node", "h0")
    state.processes_after["h0"] = ProcessState(ran_s=0.9, waited_s=0.4)  # busy, and served
    assert state.examine() == []


@pytest.mark.parametrize(
    ("shift_s", "words"), [(3.0, "ahead of"), (-3.0, "behind")], ids=["ahead", "behind"]
)
def test_a_wrong_clock_is_reported_with_its_offset(shift_s: float, words: str) -> None:
    state = State()
    for looks in (state.before, state.after):
        looks["h1"]["time_s"] += shift_s
    finding = state.only_finding()
    assert (finding.check, finding.subject) == ("wrong_clock", "h1")
    assert words in finding.problem


def test_a_clock_that_was_set_is_reported() -> None:
    state = State()
    state.before["h1"]["time_s"] -= 60.0
    assert "jumped by +60.00 s" in state.only_finding().problem


def test_a_restarted_process_is_not_compared_with_its_predecessor() -> None:
    state = State()
    state.before["s0"]["uptime_s"] = 1000.0
    state.before["s0"]["reducer"]["refused_no_slot"] = 1_000_000
    assert state.examine() == []


def test_a_disk_that_takes_no_blocks_is_reported() -> None:
    state = State()
    tier = {"fault": "blocks cannot be written to /d: 0 B free of 4 MiB", "failed": 7}
    state.after["h0"]["pools"] = [{"tenant": "acme", "tiers": {"home_disk": tier}}]
    finding = state.only_finding()
    assert (finding.check, finding.subject) == ("unwritable_disk", "h0")
    assert "in its home disk: blocks cannot be written to /d: 0 B free of 4 MiB" in finding.problem
    tier["fault"] = ""
    assert state.examine() == []
