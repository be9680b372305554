"""Processes of another machine, which the controller watches and kills through its agent."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from innet.cluster.control import machine_processes
from innet.cluster.control.__main__ import ControllerConfig
from innet.cluster.control.jobs import LaunchRecord
from innet.cluster.control.machine_processes import MachineProcesses, ProcessRequests
from innet.cluster.emulation.runs import ProcessIdentity
from innet.cluster.requests import ClientConnection, RequestServer
from innet.errors import ControlError, HostTaken
from innet.node.requests import ControlRequest, handler_of
from tests.cluster.control.running_controller import Node, running, serving_nodes, until, worker

LOST = "was on machine m1, which has left or does not answer"


class Agent:
    """An agent's socket, served on a thread.

    Attributes:
        may_kill: ``kill`` waits for it.
        may_reply: replies wait for it, such as the one at the end of a watched process.
        killed: number of ``kill`` requests that it has carried out.
    """

    def __init__(self, path: Path) -> None:
        self.requests = ProcessRequests(lambda pid: pid == os.getpid() or pid in self.supervised)
        self.supervised: set[int] = set()
        self.may_kill, self.may_reply = threading.Event(), threading.Event()
        self.may_kill.set()
        self.may_reply.set()
        self.killed = 0
        self._path = path
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._listens = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        self._thread.start()
        assert self._listens.wait(20)

    async def _serve(self) -> None:
        async def respond(request: ControlRequest, client: ClientConnection) -> None:
            handlers = self.requests.handlers(request.params, client)
            if request.method == "kill":
                await asyncio.to_thread(self.may_kill.wait, 20)
            await handler_of(request.method, handlers)()
            self.killed += request.method == "kill"
            await asyncio.to_thread(self.may_reply.wait, 20)

        async with RequestServer(self._path, respond, who="machine m1"):
            self._listens.set()
            await self._stop.wait()

    def close(self) -> None:
        """Lose the machine: its streams are closed."""
        self.may_kill.set()
        self.may_reply.set()
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
            self._loop.close()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[dict[str, Node]]:
    with serving_nodes(tmp_path) as made:
        yield made


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(tmp_path / "m1.agent")
    yield agent
    agent.close()


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1, text=True)
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def controller(nodes, agent, tmp_path):
    """A client of a controller whose h1 is on machine m1."""
    with running(tmp_path, elsewhere=lambda: elsewhere(tmp_path)) as client:
        yield client


def elsewhere(tmp_path: Path) -> dict[str, MachineProcesses]:
    config = ControllerConfig(
        run_id="x",
        topology="",
        socket=tmp_path,
        node_sockets={},
        settings=tmp_path,
        record=LaunchRecord(),
        machines={"h1": "m1"},
        agents={"m1": tmp_path / "m1.agent"},
    )
    found = config.processes_elsewhere()
    assert all(isinstance(processes, MachineProcesses) for processes in found.values())
    return found  # type: ignore[return-value]


def test_the_end_of_a_process_of_another_machine_fails_its_node(controller, process):
    controller.request("attach", node="h1", pid=process.pid)
    assert controller.request("present") == ["h1"]
    process.kill()
    until(lambda: list(controller.request("failures")) == ["h1"])
    why = controller.request("failures")["h1"]
    assert why == f"ended without closing its worker (process {process.pid})"


def test_the_launcher_reports_the_end_of_a_process_that_the_agent_started(
    controller, agent, process
):
    agent.supervised.add(process.pid)
    controller.request("attach", node="h1", pid=process.pid)
    process.kill()
    until(lambda: controller.request("present") == [])
    assert controller.request("failures") == {}


def test_processes_of_a_lost_machine_fail_with_that_reason(controller, agent, process):
    controller.request("attach", node="h1", pid=process.pid)
    agent.close()
    until(lambda: list(controller.request("failures")) == ["h1"])
    assert controller.request("failures")["h1"] == f"{LOST} (process {process.pid})"
    with pytest.raises(ControlError, match=LOST):
        controller.request("attach", node="h1", pid=process.pid)


def test_the_end_of_a_process_is_known_before_its_successor_attaches_there(
    controller, agent, process
):
    controller.request("attach", node="h1", pid=process.pid)
    with pytest.raises(HostTaken):
        controller.request("attach", node="h1", pid=os.getpid())
    agent.may_reply.clear()
    process.kill()
    process.communicate()
    assert controller.request("attach", node="h1", pid=os.getpid()) == 2


def test_a_process_that_is_not_on_its_machine_cannot_attach(controller, process):
    process.kill()
    process.communicate()
    with pytest.raises(ControlError, match=r"which cannot be watched.*on that machine"):
        controller.request("attach", node="h1", pid=process.pid)


def test_an_expelled_process_is_killed_on_its_machine(controller, process):
    controller.request("attach", node="h1", pid=process.pid)
    controller.request("expel", node="h1", other="h1", why="hangs")
    assert process.wait(timeout=20) == -signal.SIGKILL


def test_pending_kills_finish_before_the_controller_ends(nodes, agent, process, tmp_path):
    def let_kill() -> None:
        until(lambda: not (tmp_path / "c.ctl").exists())  # the controller serves no more
        agent.may_kill.set()

    agent.may_kill.clear()
    with running(tmp_path, elsewhere=lambda: elsewhere(tmp_path)) as client:
        client.request("attach", node="h1", pid=process.pid)
        client.request("lose_node", node="h1", why="hangs")
        client.request("detach", node="h1", incarnation=1)
        thread = threading.Thread(target=let_kill)
        thread.start()
    assert agent.killed == 1
    thread.join()
    assert process.wait(timeout=20) == -signal.SIGKILL


def test_a_controller_that_starts_again_watches_and_kills_the_processes_of_machines(
    nodes, agent, process, tmp_path, monkeypatch
):
    """Even when the agent has no descriptor to watch them with at first."""
    pidfd_open = os.pidfd_open
    refused: list[int] = []

    def open_process(pid: int) -> int:
        if len(refused) < 2:
            refused.append(pid)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return pidfd_open(pid)

    monkeypatch.setattr(machine_processes, "_OPEN_PAUSE_S", 0.01)
    monkeypatch.setattr(os, "pidfd_open", open_process)
    nodes["h1"].worker = worker(process.pid)
    record = LaunchRecord(generation=1)
    with running(tmp_path, record, elsewhere=lambda: elsewhere(tmp_path)) as client:
        client.request("expel", node="h1", other="h1", why="hangs")
        assert process.wait(timeout=20) == -signal.SIGKILL
        until(lambda: client.request("present") == [])


def test_an_attached_process_of_another_machine_is_not_killed(controller, process, tmp_path):
    controller.request("attach", node="h1", pid=process.pid, is_attached=True)
    controller.request("expel", node="h1", other="h1", why="hangs")
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1)
    controller.request("detach", node="h1", incarnation=1)
    controller.request("attach", node="h1", pid=other.pid)
    controller.request("expel", node="h1", other="h1", why="hangs")
    assert other.wait(timeout=20) == -signal.SIGKILL
    other.communicate()
    process.communicate("\n")
    assert process.returncode == 0


@pytest.mark.parametrize("is_own", [False, True])
async def test_an_agent_kills_no_process_that_it_did_not_start(tmp_path, process, is_own) -> None:
    """Nor the successor of one that it did, with its pid."""
    identity = ProcessIdentity.of(process.pid)
    assert identity is not None
    wanted = ProcessIdentity(pid=process.pid, start_ticks=1) if is_own else identity
    requests = ProcessRequests(lambda pid: is_own and pid == os.getpid())

    async def respond(request: ControlRequest, client: ClientConnection) -> None:
        await handler_of(request.method, requests.handlers(request.params, client))()

    async with RequestServer(tmp_path / "m1.agent", respond, who="machine m1"):
        machine = MachineProcesses("m1", tmp_path / "m1.agent")
        watched = await machine.open(process.pid)
        client = machine.client()
        with pytest.raises(ControlError, match=f"process {process.pid} is not killed"):
            await client.request("kill", {"identity": wanted.model_dump()})
        client.close()
        watched.close()
    process.communicate("\n")
    assert process.returncode == 0
