"""The controller's driver: its socket, messages to nodes in order, and processes that end."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from innet.cluster.control import driver as driver_module
from innet.cluster.control.actions import Compute, Send
from innet.cluster.control.jobs import KnownJob, LaunchRecord
from innet.cluster.control.sum_mover import SumMover
from innet.errors import ControlError, HostTaken
from innet.node.controller_client import ControllerClient
from innet.security import JobTrust
from tests.cluster.control.running_controller import (
    HOSTS,
    Node,
    running,
    serving_nodes,
    until,
    worker,
)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[dict[str, Node]]:
    with serving_nodes(tmp_path) as made:
        yield made


def open_job(client: ControllerClient) -> KnownJob:
    job = client.request("admit_job", name=None, hosts=HOSTS)
    known = KnownJob.model_validate({"job": job, "keys": JobTrust(signing=None, trusted=())})
    client.request("open_job", **known.model_dump())
    return known


def join(client: ControllerClient) -> None:
    for host in HOSTS:
        client.request("join_group", group="g", algorithm="inc", ranks=HOSTS, node=host)


def test_a_node_receives_messages_in_order(nodes, tmp_path):
    with running(tmp_path) as client:
        known = open_job(client)
        join(client)
        client.request("close_job", job=known.model_dump()["job"])
    assert nodes["s0"].told == ["install_job", "install_group", "remove_group", "remove_job"]


def test_a_slow_host_does_not_delay_others(nodes, tmp_path):
    nodes["h2"].may_answer.clear()
    with running(tmp_path) as client:
        open_job(client)
        join(client)
        client.request("fail_node", node="h0", why="was killed")
        until(lambda: "fail_group" in nodes["h1"].told)
        assert nodes["h2"].told == []
        nodes["h2"].may_answer.set()


def test_requests_are_answered_while_placements_are_compared(nodes, tmp_path, monkeypatch):
    may_end, found = threading.Event(), list[object]()
    compare = Compute(lambda: may_end.wait())
    monkeypatch.setattr(SumMover, "review", lambda mover: mover._outbox.put(compare))
    monkeypatch.setattr(SumMover, "on_compared", lambda _mover, result, _: found.append(result))
    with running(tmp_path) as client:
        client.request("watch_nodes")
        until(lambda: any(thread.name == "innet-compute" for thread in threading.enumerate()))
        client.request("ping")
        assert found == []
        may_end.set()
        until(lambda: found[:1] == [True])


def test_the_end_of_a_process_is_known_before_its_successor_attaches(nodes, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with running(tmp_path) as client:
        assert client.request("attach", node="h1", pid=process.pid) == 1
        with pytest.raises(HostTaken, match=f"process {process.pid} has the node of h1"):
            client.request("attach", node="h1", pid=os.getpid())
        process.kill()
        process.communicate()
        assert client.request("attach", node="h1", pid=os.getpid()) == 2
        assert client.request("failures") == {}
        assert client.request("present") == ["h1"]


def test_the_end_of_a_watched_process_fails_its_node(nodes, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with running(tmp_path) as client:
        client.request("attach", node="h1", pid=process.pid)
        process.kill()
        process.communicate()
        until(lambda: list(client.request("failures")) == ["h1"])
        assert client.request("present") == []


def test_a_process_that_has_ended_cannot_attach(nodes, tmp_path):
    process = subprocess.Popen(["true"])
    process.wait()
    refusal = f"h1 names process {process.pid}, which cannot be watched"
    with running(tmp_path) as client, pytest.raises(ControlError, match=refusal):
        client.request("attach", node="h1", pid=process.pid)


def test_a_switch_that_hangs_is_lost_and_returns_when_it_answers(nodes, tmp_path):
    with running(tmp_path) as client:
        client.request("watch_nodes")
        nodes["s0"].may_answer.clear()
        until(lambda: "s0" not in client.request("routes", node="h0"))
        nodes["s0"].may_answer.set()
        until(lambda: "s0" in client.request("routes", node="h0"))
        assert client.request("failures") == {}


@pytest.mark.parametrize("pong", [None, [], {"unheard": 5}, {"unheard": [], "reading": {}}])
def test_a_switch_that_answers_something_else_is_lost(nodes, tmp_path, pong):
    with running(tmp_path) as client:
        client.request("watch_nodes")
        honest, nodes["s0"].pong = nodes["s0"].pong, pong
        until(lambda: "s0" not in client.request("routes", node="h0"))
        nodes["s0"].pong = honest
        until(lambda: "s0" in client.request("routes", node="h0"))


def test_a_failed_action_does_not_lose_the_next_ones(nodes, tmp_path):
    to_nobody = Send("a stranger", [("ping", {})], timeout_s=1.0, number=0)
    nodes["h1"].worker = worker(os.getpid())
    with running(tmp_path, LaunchRecord(generation=1), first=to_nobody) as client:
        until(lambda: client.request("present", timeout_s=5) == ["h1"])


def test_a_process_that_cannot_be_watched_yet_counts_as_running(nodes, tmp_path, monkeypatch):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    nodes["h1"].worker = worker(process.pid)
    attempts, pidfd_open = [], os.pidfd_open

    def open_process(pid: int) -> int:
        attempts.append(pid)
        if len(attempts) < 3:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return pidfd_open(pid)

    monkeypatch.setattr(driver_module, "_WATCH_PAUSE_S", 0.01)
    monkeypatch.setattr(os, "pidfd_open", open_process)
    with running(tmp_path, LaunchRecord(generation=1)) as client:
        until(lambda: len(attempts) >= 3)
        assert client.request("present") == ["h1"]
        process.kill()
        process.communicate()
        until(lambda: client.request("present") == [])


def test_a_process_that_is_expelled_while_it_cannot_be_watched_is_killed_later(
    nodes, tmp_path, monkeypatch
):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    nodes["h1"].worker = worker(process.pid)
    may_open, refused, pidfd_open = threading.Event(), [], os.pidfd_open

    def open_process(pid: int) -> int:
        if not may_open.is_set():
            refused.append(pid)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return pidfd_open(pid)

    monkeypatch.setattr(driver_module, "_WATCH_PAUSE_S", 0.01)
    monkeypatch.setattr(os, "pidfd_open", open_process)
    try:
        with running(tmp_path, LaunchRecord(generation=1)) as client:
            until(lambda: len(refused) >= 2)
            client.request("expel", node="h1", other="h1", why="hangs")
            refused_before = len(refused)
            until(lambda: len(refused) >= refused_before + 2)  # it is still to be killed then
            may_open.set()
            process.wait(timeout=20)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("is_restarted", [False, True])
def test_an_attached_process_is_never_killed(nodes, tmp_path, is_restarted):
    """Neither by the controller that it has attached to, nor by the successor of that one."""
    attached, own = (
        subprocess.Popen([sys.executable, "-c", "print(input())"], stdin=-1, stdout=-1, text=True)
        for _ in range(2)
    )
    record = None
    if is_restarted:
        record = LaunchRecord(generation=1)
        nodes["h1"].worker = worker(attached.pid, is_attached=True)
    try:
        with running(tmp_path, record) as client:
            known = open_job(client)
            if not is_restarted:
                client.request("attach", node="h1", pid=attached.pid, is_attached=True)
            client.request("attach", node="h2", pid=own.pid)
            client.request("expel", node="h1", other="h1", why="hangs")
            client.request("lose_node", node="h1", why="hangs")
            client.request("close_job", job=known.model_dump()["job"])
            assert own.wait(timeout=20) == -signal.SIGKILL  # and that was asked for last
        assert attached.communicate("alive", timeout=20)[0] == "alive\n"
    finally:
        for process in (attached, own):
            process.kill()
            process.communicate()
