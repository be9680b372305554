"""The controller's driver: its socket, messages to nodes in order, and processes that end."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from innet.cluster.control import driver as driver_module
from innet.cluster.control.actions import Action, Send
from innet.cluster.control.controller import Controller
from innet.cluster.control.driver import ControllerDriver
from innet.cluster.control.jobs import KnownJob, LaunchRecord
from innet.errors import ControlError, HostTaken
from innet.node.controller_client import ControllerClient
from innet.node.messages import WorkerReport
from innet.node.requests import ControlServer
from innet.security import JobTrust
from innet.settings import RecoverySettings
from innet.topology import load_topology

NODES = ("s0", "h0", "h1", "h2")
HOSTS = NODES[1:]


class Node:
    """A node's control socket: it keeps what it is told, and answers when it may."""

    def __init__(self, path: Path) -> None:
        self.told: list[str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.worker: WorkerReport | None = None
        methods = ("install_job", "install_group", "remove_group", "remove_job", "fail_group")
        handlers = {method: self._handler(method) for method in (*methods, "set_routes")}
        reports = {"ping": self._ping, "memberships": self._memberships}
        self.server = ControlServer(path, {**handlers, **reports}, who=path.stem)

    def _handler(self, method: str):
        def take(**_params: object) -> None:
            assert self.may_answer.wait(20)
            self.told.append(method)

        return take

    def _ping(self) -> dict[str, list[str]]:
        assert self.may_answer.wait(20)
        return {"unheard": []}

    def _memberships(self) -> WorkerReport:
        if self.worker is None:
            raise ControlError("no worker is here")
        return self.worker


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[dict[str, Node]]:
    with ExitStack() as stack:
        made = {name: Node(tmp_path / f"{name}.ctl") for name in NODES}
        for node in made.values():
            stack.callback(node.server.close)
            stack.callback(node.may_answer.set)
        yield made


@contextmanager
def running(
    tmp_path: Path, record: LaunchRecord | None = None, first: Action | None = None
) -> Iterator[ControllerClient]:
    """A client of a controller, which runs on a thread of its own.

    ``record`` is of the controller that it replaces; ``first`` is before its own actions.
    """
    recovery = RecoverySettings(heartbeat_interval_s=0.05, heartbeat_timeout_s=0.3)
    controller = Controller(load_topology("star:3"), recovery=recovery, record=record)
    if first is not None:
        controller._outbox._actions.appendleft(first)
    sockets = {node: tmp_path / f"{node}.ctl" for node in NODES}
    driver = ControllerDriver(controller, tmp_path / "c.ctl", sockets)
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with driver:
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        with ControllerClient(tmp_path / "c.ctl") as client:
            yield client
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


def open_job(client: ControllerClient) -> KnownJob:
    job = client.request("admit_job", name=None, hosts=HOSTS)
    known = KnownJob.model_validate({"job": job, "keys": JobTrust(signing=None, trusted=())})
    client.request("open_job", **known.model_dump())
    return known


def join(client: ControllerClient) -> None:
    for host in HOSTS:
        client.request("join_group", group="g", algorithm="inc", ranks=HOSTS, node=host)


def test_a_node_hears_in_the_order_in_which_it_was_told(nodes, tmp_path):
    with running(tmp_path) as client:
        known = open_job(client)
        join(client)
        client.request("close_job", job=known.model_dump()["job"])
    assert nodes["s0"].told == ["install_job", "install_group", "remove_group", "remove_job"]


def test_a_host_that_takes_its_time_keeps_nobody_else_waiting(nodes, tmp_path):
    nodes["h2"].may_answer.clear()
    with running(tmp_path) as client:
        open_job(client)
        join(client)
        client.request("fail_node", node="h0", why="was killed")
        until(lambda: "fail_group" in nodes["h1"].told)
        assert nodes["h2"].told == []
        nodes["h2"].may_answer.set()


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


def test_a_process_of_another_machine_cannot_attach(nodes, tmp_path):
    refusal = pytest.raises(ControlError, match="h1 names process 0, which cannot be watched")
    with running(tmp_path) as client, refusal:
        client.request("attach", node="h1", pid=0)


def test_a_switch_that_hangs_is_lost_and_returns_when_it_answers(nodes, tmp_path):
    with running(tmp_path) as client:
        client.request("watch_nodes")
        nodes["s0"].may_answer.clear()
        until(lambda: "s0" not in client.request("routes", node="h0"))
        nodes["s0"].may_answer.set()
        until(lambda: "s0" in client.request("routes", node="h0"))
        assert client.request("failures") == {}


def test_an_action_that_fails_does_not_lose_the_actions_behind_it(nodes, tmp_path):
    to_nobody = Send("a stranger", [("ping", {})], timeout_s=1.0, number=0)
    nodes["h1"].worker = worker(os.getpid())
    with running(tmp_path, LaunchRecord(generation=1), first=to_nobody) as client:
        until(lambda: client.request("present", timeout_s=5) == ["h1"])


def test_a_process_that_cannot_be_watched_yet_has_not_ended(nodes, tmp_path, monkeypatch):
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
            client.request("expel", node="h1", why="hangs")
            refused_before = len(refused)
            until(lambda: len(refused) >= refused_before + 2)  # it is still to be killed then
            may_open.set()
            process.wait(timeout=20)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL


def worker(pid: int) -> WorkerReport:
    return WorkerReport(node="h1", pid=pid, incarnation=1, failed=None, groups=[])
