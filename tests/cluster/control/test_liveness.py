"""Signs of life: switches that hang, workers that are stopped or busy, rounds of pings."""

from __future__ import annotations

from typing import Any

import pytest

from innet.cluster.control.actions import PingNode
from innet.cluster.control.controller import Controller
from innet.settings import RecoverySettings, Settings
from innet.topology import load_topology
from tests.cluster.control.hand_driven import HandDriven

TOPOLOGY = load_topology("leaf-spine:2x2x2")


def watching(**settings: Any) -> HandDriven:
    """A controller that pings all switches and a worker on each host."""
    made = HandDriven(
        Controller(TOPOLOGY, settings=Settings(recovery=RecoverySettings(**settings)))
    )
    made.open_job(TOPOLOGY.hosts)
    for pid, host in enumerate(TOPOLOGY.hosts):
        made.attach(host, pid)
    made.watch_nodes()
    return made


@pytest.fixture
def controller() -> HandDriven:
    return watching()


def ping_of(controller: HandDriven, node: str) -> PingNode:
    (ping,) = (ping for ping in controller.pings if ping.node == node)
    return ping


def miss(controller: HandDriven, node: str) -> None:
    """``node`` does not answer a ping in time."""
    controller.silent.add(node)
    controller.pass_time(controller.now_s + 1)
    ping = ping_of(controller, node)
    controller.pass_time(controller.now_s + ping.timeout_s)
    controller.pings.remove(ping)
    controller.pong(ping, None)


def events(controller: HandDriven) -> list[str]:
    return [report.kind for report in controller.reports]


def test_many_slow_nodes_delay_no_other(controller: HandDriven) -> None:
    controller.silent = {"h0", "spine0"}
    for _ in range(5):
        controller.pass_time(controller.now_s + 1)
        assert sorted(ping.node for ping in controller.pings) == ["h0", "spine0"]
    controller.silent.clear()
    controller.pass_time(controller.now_s + 1)
    assert controller.pings == []
    assert controller.reports == []


def test_silence_and_return_are_each_reported_once(controller: HandDriven) -> None:
    miss(controller, "spine0")
    miss(controller, "spine0")
    assert events(controller) == ["switch_lost"]
    assert "spine0" not in controller.routes("leaf0")
    controller.silent.clear()
    controller.pass_time(controller.now_s + 3)
    assert events(controller) == ["switch_lost", "switch_restored"]
    assert "spine0" in controller.routes("leaf0")


def test_a_link_that_both_ends_find_silent_is_avoided_until_both_receive_again(
    controller: HandDriven,
) -> None:
    before = controller.routes("leaf0")
    controller.pass_time(3, {"leaf0": ["spine0"], "spine0": ["leaf0"]})
    assert controller.routes("leaf0")["spine0"] == before["spine1"]
    assert controller.told_by("set_routes")["h0"]["routes"] == controller.routes("h0")
    controller.pass_time(6)
    assert controller.routes("leaf0") == before
    assert events(controller) == ["link_lost", "link_restored"]


def test_the_end_of_a_process_does_not_affect_its_successor(controller: HandDriven) -> None:
    controller.silent = {"h0"}
    controller.pass_time(2)
    late = ping_of(controller, "h0")
    controller.end_process("h0", is_supervised=True)
    controller.attach("h0", 77)
    controller.pass_time(3)
    controller.pong(late, None)
    assert controller.killed == []
    assert sorted(ping.incarnation for ping in controller.pings) == [1, 2]


def test_a_silent_worker_is_killed_and_the_message_names_the_setting(
    controller: HandDriven,
) -> None:
    controller.silent = {"h1"}
    controller.pass_time(40, {"leaf0": ["h1"]})
    ping = ping_of(controller, "h1")
    assert controller.stopped() == ["h1"]
    controller.pong(ping, None)
    assert controller.killed == ["h1"]
    assert "not answered for 30 s (recovery.worker_timeout_s)" in controller.reports[-1].text
    assert list(controller.failures()) == ["h1"]


def test_a_worker_whose_node_answers_is_not_killed_by_default(controller: HandDriven) -> None:
    for _ in range(20):
        miss(controller, "h1")
    assert controller.killed == []
    (told,) = controller.reports
    assert told.kind == "worker_busy"
    assert "recovery.interpreter_timeout_s" in told.text
    assert controller.stopped() == []


def test_a_setting_kills_a_hung_worker_whose_node_answers_and_the_message_names_it() -> None:
    controller = watching(interpreter_timeout_s=60)
    miss(controller, "h1")
    assert controller.killed == []
    miss(controller, "h1")
    assert controller.killed == ["h1"]
    why = controller.reports[-1].text
    assert "not answered for 60 s (recovery.interpreter_timeout_s)" in why


def test_an_answer_restarts_the_timeout() -> None:
    controller = watching(interpreter_timeout_s=60)
    for _ in range(10):
        miss(controller, "h1")
        controller.silent.clear()
        controller.pass_time(controller.now_s + 2)
    assert controller.killed == []


def test_a_busy_worker_that_is_then_stopped_is_killed(controller: HandDriven) -> None:
    miss(controller, "h1")
    assert controller.killed == []
    controller.pass_time(controller.now_s + 2, {"leaf0": ["h1"]})
    ping = ping_of(controller, "h1")
    controller.pass_time(controller.now_s + 30, {"leaf0": ["h1"]})
    controller.pong(ping, None)
    assert controller.killed == ["h1"]
    assert "recovery.worker_timeout_s" in controller.reports[-1].text
