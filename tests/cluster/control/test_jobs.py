"""The controller's word on jobs: who has which hosts, and that none can speak for another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from innet.cluster.control.controller import Controller
from innet.cluster.control.jobs import JobRegistry
from innet.errors import ControlError
from innet.topology import load_topology
from tests.cluster.control.hand_driven import HandDriven

HOSTS = ("h0", "h1", "h2", "h3")


@pytest.fixture
def controller() -> HandDriven:
    return HandDriven(Controller(load_topology("star:4")))


def join(controller: HandDriven, ranks: Sequence[str]) -> dict[str, Any]:
    answers: list[dict[str, Any]] = [
        controller.join_group("g0", "inc", ranks, node) for node in ranks
    ]
    return answers[-1]


def test_a_host_has_one_job_at_a_time():
    jobs = JobRegistry(HOSTS)
    first = jobs.admit("a", ["h0", "h1"], 1)
    with pytest.raises(ControlError, match=r"h1 has a job already \(a\).*Choose among h2, h3"):
        jobs.admit("b", ["h1", "h2"], 1)
    assert jobs.admit("b", ["h2", "h3"], 1).hosts == ("h2", "h3")
    with pytest.raises(ControlError, match="No host is free"):
        jobs.admit("c", HOSTS, 1)
    jobs.remove(first)
    assert jobs.admit("c", ["h0", "h1"], 1).weight == 1


def test_prefixes_of_jobs_are_never_reused():
    jobs = JobRegistry(HOSTS)
    prefixes = []
    for name in ("a", None, "j3", "a", None):
        job = jobs.admit(name, ["h0"], 1)
        prefixes.append(job.prefix)
        jobs.remove(job)
    assert prefixes == ["/a.1", "/j2", "/j3.3", "/a.4", "/j5"]


@pytest.mark.parametrize(
    ("name", "weight", "says"),
    [("a.b", 1, "cannot be a job's name"), ("x" * 13, 1, "cannot"), ("", 1, "cannot"),
     ("a", 0, "from 1 to 1000"), ("a", 1001, "from 1 to 1000"), ("taken", 1, "running already")],
)  # fmt: skip
def test_invalid_names_and_weights_are_refused(name, weight, says):
    jobs = JobRegistry(HOSTS)
    jobs.admit("taken", ["h3"], 1)
    with pytest.raises(ControlError, match=says):
        jobs.admit(name, ["h0"], weight)
    assert len(jobs.describe()) == 1


def test_groups_of_two_jobs_may_share_a_name_and_nothing_else(controller):
    a = controller.open_job(["h0", "h1"], "a")
    controller.open_job(["h2", "h3"], "b")
    of_a, of_b = join(controller, ["h0", "h1"]), join(controller, ["h2", "h3"])
    assert of_a["number"] != of_b["number"]
    assert list(of_a["plans"]) == ["/a.1/g0.inc"]
    assert list(of_b["plans"]) == ["/b.2/g0.inc"]
    controller.fail_node("h0", "was killed")
    assert set(controller.told_by("fail_group")) == {"h1"}
    assert [group["job"] for group in controller.groups()] == ["b"]
    controller.close_job(a)
    assert controller.ready_group("g0", of_b["number"], "h2")["missing"] == [1]
    assert not controller.failures()


def test_a_group_cannot_take_another_jobs_hosts(controller):
    controller.open_job(["h0", "h1"], "a")
    controller.open_job(["h2", "h3"], "b")
    with pytest.raises(ControlError, match="h2, which job a has not"):
        controller.join_group("g0", "inc", ["h0", "h2"], "h0")


def test_switches_serve_a_job_from_before_its_first_rule_to_after_its_last(controller):
    job = controller.open_job(["h0", "h1"], "a")
    join(controller, ["h0", "h1"])
    controller.close_job(job)
    said = [(method, params.get("prefix", params.get("group"))) for _, method, params in
            controller.told]  # fmt: skip
    assert said == [
        ("install_job", "/a.1"),
        ("install_group", "/a.1/g0.inc"),
        ("remove_group", "/a.1/g0.inc"),
        ("remove_job", "/a.1"),
    ]
    with pytest.raises(ControlError, match="no job runs on h0"):
        controller.join_group("g0", "inc", ["h0"], "h0")
