"""A controller that runs on a thread, with nodes whose sockets the test serves."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from innet.cluster.control.actions import Action
from innet.cluster.control.controller import Controller
from innet.cluster.control.driver import ControllerDriver, OtherMachine
from innet.cluster.control.jobs import LaunchRecord
from innet.cluster.control.processes import LocalProcesses, Processes
from innet.errors import ControlError
from innet.node.control_server import ControlServer
from innet.node.controller_client import ControllerClient
from innet.node.messages import WorkerReport
from innet.settings import RecoverySettings, Settings
from innet.topology import load_topology

NODES = ("s0", "h0", "h1", "h2")
HOSTS = NODES[1:]


class Node:
    """A node's control socket: it keeps what it is told, and answers when it may.

    Attributes:
        pong: the answer to pings.
    """

    def __init__(self, path: Path) -> None:
        self.told: list[str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.worker: WorkerReport | None = None
        self.pong: object = {"unheard": []}
        methods = ("install_job", "install_group", "remove_group", "remove_job", "fail_group")
        handlers = {method: self._handler(method) for method in (*methods, "set_routes")}
        reports = {"ping": self._ping, "memberships": self._memberships}
        self.server = ControlServer(path, {**handlers, **reports}, who=path.stem)

    def _handler(self, method: str):
        def take(**_params: object) -> None:
            assert self.may_answer.wait(20)
            self.told.append(method)

        return take

    def _ping(self) -> object:
        assert self.may_answer.wait(20)
        return self.pong

    def _memberships(self) -> WorkerReport:
        if self.worker is None:
            raise ControlError("no worker is here")
        return self.worker


@contextmanager
def serving_nodes(tmp_path: Path) -> Iterator[dict[str, Node]]:
    """All nodes of the controller that :func:`running` runs."""
    with ExitStack() as stack:
        made = {name: Node(tmp_path / f"{name}.ctl") for name in NODES}
        for node in made.values():
            stack.callback(node.server.close)
            stack.callback(node.may_answer.set)
        yield made


@contextmanager
def running(
    tmp_path: Path,
    record: LaunchRecord | None = None,
    first: Action | None = None,
    elsewhere: Callable[[], Mapping[str, Processes]] = dict,
    machines: Callable[[Path], Mapping[str, OtherMachine]] = lambda _tmp_path: {},
) -> Iterator[ControllerClient]:
    """A client of a controller, which runs on a thread of its own.

    ``record`` is of the controller that it replaces; ``first`` is before its own actions;
    ``elsewhere`` makes the processes of nodes on other machines, ``machines`` these machines.
    """
    recovery = RecoverySettings(heartbeat_interval_s=0.05, heartbeat_timeout_s=0.3)
    settings = Settings(recovery=recovery)
    controller = Controller(load_topology("star:3"), settings=settings, record=record)
    if first is not None:
        controller._outbox._actions.appendleft(first)
    sockets = {node: tmp_path / f"{node}.ctl" for node in NODES}
    own = LocalProcesses(is_started=lambda pid: pid == os.getpid())  # and so its descendants
    driver = ControllerDriver(
        controller, tmp_path / "c.ctl", sockets, own, elsewhere(), machines(tmp_path)
    )
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


def worker(pid: int, *, is_attached: bool = False) -> WorkerReport:
    """The report of process ``pid``, which is attached to h1."""
    return WorkerReport(
        node="h1", pid=pid, incarnation=1, failed=None, is_attached=is_attached, groups=[]
    )


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens elsewhere."""
    while not condition():
        time.sleep(0.01)
