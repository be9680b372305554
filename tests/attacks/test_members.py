"""A machine of a cluster that lies: it runs, ends, reads and redirects nothing of others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel

from innet.cluster.control.controller import Controller
from innet.cluster.control.worker_requests import WORKER_REQUESTS
from innet.cluster.launch.machine_links import MachineLinks
from innet.cluster.launch.session import Session
from innet.cluster.machines.addresses import Address
from innet.cluster.machines.commands import OpenReply
from innet.cluster.machines.machine_commands import MachineCommands
from innet.cluster.machines.remote import RemoteMachine
from innet.cluster.session_client import SESSION_SOCKET_NAME, JobRequest, WorkerOptions
from innet.errors import ControlError, EmulationError, HostTaken, NoAnswer, RankFailed
from innet.node.controller_client import CONTROLLER_SOCKET_NAME, ControllerClient
from tests.attacks.member_machine import TOPOLOGY, request, topology_of, two_machines


@pytest.mark.parametrize("end", ["reset", "end"])
async def test_a_machine_starts_no_job_however_its_stream_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    marker = tmp_path / "ran"
    job = JobRequest(argv=("touch", str(marker)), options=WorkerOptions(hosts=("h0",)))
    line = request("run_job", **json.loads(job.model_dump_json()))
    async with two_machines(monkeypatch) as (session, member):
        for after in (b"", b"x", b"\n", line):
            stream = member.stream(SESSION_SOCKET_NAME)
            assert not (await stream.request("nothing"))["ok"]  # the launcher serves the stream
            stream.send(line + after)
            getattr(stream, end)()
        answer = await member.stream(SESSION_SOCKET_NAME).request(
            "run_job", **json.loads(job.model_dump_json())
        )
        assert "machine m1 may not start jobs on net" in answer["error"]
        await session.run_workers(["true"], hosts=["h0"])
    assert not marker.exists()


class Victim:
    """A process of the same user that neither launcher nor agent has started."""

    def __init__(self) -> None:
        shell = (
            "sleep 600 >/dev/null 2>&1 & echo $!"  # it outlives the shell, and is nobody's child
        )
        said = subprocess.run(["sh", "-c", shell], check=True, capture_output=True)
        self.pid = int(said.stdout)
        self._fd = os.pidfd_open(self.pid)

    @property
    def is_alive(self) -> bool:
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        return not poller.poll(0)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._fd, signal.SIGKILL)
        os.close(self._fd)


@pytest.fixture
def victim() -> Iterator[Victim]:
    with contextlib.closing(Victim()) as found:
        yield found


async def ask(path: Path, method: str, **params: Any) -> Any:
    """The answer of a controller."""

    def request() -> Any:
        with ControllerClient(path / CONTROLLER_SOCKET_NAME) as client:
            return client.request(method, **params)

    return await asyncio.to_thread(request)


LAUNCHERS_REQUESTS: dict[str, dict[str, Any]] = {
    "lose_node": {"node": "h1", "why": "a lie"},
    "end_node": {"node": "h1"},
    "fail_node": {"node": "h1", "why": "a lie"},
    "failures": {},
    "used_hosts": {},
    "admit_job": {"name": None, "hosts": ["h1"]},
    "open_job": {},
    "close_job": {},
    "lose_switch": {"switch": "s0", "why": "a lie", "returns": False},
    "restore_switch": {"switch": "s0"},
    "watch_nodes": {},
}
OF_NODES: dict[str, dict[str, Any]] = {
    "attach": {"pid": 1, "sealing_key": "09" + "00" * 31},
    "detach": {"incarnation": 1},
    "announce": {"incarnation": 0, "version": 1, "prefixes": ["/a"]},
    "routes": {},
    "join_group": {"group": "g0", "algorithm": "inc", "ranks": ["h0", "h1"]},
    "ready_group": {"group": "g0", "number": 1},
    "leave_groups": {"groups": [["g0", 1]]},
    "group_failure": {"group": "g0", "number": 1},
    "shrink_group": {"group": "g0", "number": 1, "heard": ["a lie", 0]},
    "expel": {"other": "h2", "why": "a lie"},
    "fail": {"incarnation": 1, "why": "a lie"},
    "open_pool": {
        "incarnation": 1,
        "tenant": "ab",
        "key": {"signature": "ed25519", "name": "/k", "secret": "00" * 32},
        "capacity_bytes": 1,
        "weight": 1,
    },
    "leave_pool": {"incarnation": 1, "tenant": "ab"},
    "empty_pool_caches": {"incarnation": 1, "tenant": "ab"},
}


async def test_a_machine_speaks_for_its_own_nodes_and_not_for_the_launcher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_node = {name for name, model in WORKER_REQUESTS.items() if "node" in model.model_fields}
    assert with_node == OF_NODES.keys(), "a request of a node that is not tried below"
    async with two_machines(monkeypatch) as (session, member):
        methods = session_methods(session)
        assert methods == {*LAUNCHERS_REQUESTS, *WORKER_REQUESTS}
        for method, params in LAUNCHERS_REQUESTS.items():
            with pytest.raises(ControlError, match=f"unknown method '{method}' for machine m1"):
                await ask(member.run_dir, method, **params)
        for method, params in OF_NODES.items():
            for node in ("h0", "s0", "nowhere"):
                with pytest.raises(ControlError, match=f"{node} is not on machine m1"):
                    await ask(member.run_dir, method, node=node, **params)
        with pytest.raises(ControlError, match="invalid 'present'"):
            await ask(member.run_dir, "present", node="h0")
        assert await ask(member.run_dir, "present") == []
        await session.run_workers(["true"], hosts=["h0", "h2"])


def session_methods(session: Session) -> set[str]:
    """All requests of a controller."""
    return set(Controller(session.topology).methods)


async def test_no_process_is_killed_that_the_launcher_or_agent_did_not_start(
    monkeypatch: pytest.MonkeyPatch, victim: Victim
) -> None:
    async with two_machines(monkeypatch) as (session, member):
        for run_dir, node in ((member.run_dir, "h1"), (session.network.run_dir, "h0")):
            await ask(run_dir, "attach", node=node, pid=victim.pid)
            await ask(session.network.run_dir, "expel", node=node, other=node, why="a lie")
            await ask(session.network.run_dir, "lose_node", node=node, why="a lie")
    assert victim.is_alive  # the end of the controller has waited for its kills


def lying(monkeypatch: pytest.MonkeyPatch, method: str, change: Callable[[Any], Any]) -> None:
    """The agent changes its reply to a request of the launcher."""
    handler = getattr(MachineCommands, method)

    async def lie(self: MachineCommands, request: Any) -> Any:
        return change(await handler(self, request))

    monkeypatch.setattr(MachineCommands, method, lie)


def with_fields(**fields: Any) -> Callable[[BaseModel], dict[str, Any]]:
    return lambda reply: reply.model_dump(mode="json") | fields


REACHED = "wants to be reached at 127.0.0.2, and has joined from 127.0.0.1"
ELSEWHERE = {"1": ["127.0.0.2", 4711]}


def refuses(error: Exception) -> Callable[[Any], Any]:
    def refuse(_reply: Any) -> Any:
        raise error

    return refuse


@pytest.mark.parametrize("error", [RankFailed("a lie", rank=0), HostTaken("a lie")])
async def test_the_kind_of_a_machines_refusal_ends_the_launch_with_an_error_alone(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    lying(monkeypatch, "_open", refuses(error))
    with pytest.raises(EmulationError, match=r"machine m1 cannot go on: .*a lie"):
        async with two_machines(monkeypatch):
            pass


async def test_a_request_that_is_too_long_ends_only_its_own_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with two_machines(monkeypatch) as (_, member):
        session = member.stream(SESSION_SOCKET_NAME)
        for _ in range(2):
            session.send(b"x" * (1 << 16))
        assert await session.line() is None
        long = "x" * (2 << 20)
        with pytest.raises(NoAnswer):
            await ask(member.run_dir, "pool_members", tenant=long, timeout_s=0.5)
        assert await ask(member.run_dir, "present") == []


@pytest.mark.parametrize(
    ("method", "fields", "why"),
    [
        ("_open", {"address": "127.0.0.2"}, REACHED),
        ("_open", {"sockets": ELSEWHERE}, REACHED),
        ("_open", {"sockets": {}}, "other links than its own"),
        ("_open", {"sockets": {"0": ["127.0.0.1", 4711]}}, "other links than its own"),
        ("_open", {"sockets": {"1": ["localhost", 4711]}}, "something else than a OpenReply"),
        ("_open", {"sockets": {"1": ["127.0.0.1", 0]}}, "something else than a OpenReply"),
        ("_open", {"processors": 0}, "something else than a OpenReply"),
        ("_open", {"run_dir": "x"}, "something else than a OpenReply"),
        ("_open", {"more": 1}, "something else than a OpenReply"),
        ("_connect", {"received_bytes": {}}, "has probed other links than its own"),
        ("_connect", {"received_bytes": {"0": 1472}}, "has probed other links than its own"),
        ("_connect", {"received_bytes": {"1": 1}}, "something else than a ConnectReply"),
        ("_connect", {"received_bytes": {"1": 1 << 40}}, "something else than a ConnectReply"),
    ],
)
async def test_a_machine_names_no_address_or_link_of_others(
    monkeypatch: pytest.MonkeyPatch, method: str, fields: dict[str, Any], why: str
) -> None:
    lying(monkeypatch, method, with_fields(**fields))
    with pytest.raises(EmulationError, match=why):
        async with two_machines(monkeypatch):
            pass


class OpenedAt:
    """A machine that has joined from fd12::5, and opens its links where it likes."""

    address = "fd12::5"

    def __init__(self, name: str, sockets: dict[int, tuple[str, int]]) -> None:
        self.name = name
        self._reply = {"address": self.address, "sockets": sockets}

    async def open(self, _request: Any) -> OpenReply:
        return OpenReply.model_validate({**self._reply, "run_dir": "/run/x", "processors": 1})


@pytest.mark.parametrize("spelling", ["fd12::2", "FD12:0::2", "fd12::2%lo", "fd13::2", "::1%lo"])
async def test_no_spelling_of_an_address_takes_it_from_another_machine(
    tmp_path: Path, spelling: str
) -> None:
    described = TOPOLOGY.replace(
        "h2: {kind: host, machine: launcher", "h2: {kind: host, machine: m2"
    )
    for port in ("eth1", "eth2"):
        described = described.replace(f's0:{port}"]', f's0:{port}"]\n      subnet: "fd12::/64"')
    links = MachineLinks(
        topology_of(described, tmp_path), Address("::1", 1), seed=1, shared_memory=False
    )
    await links.open(cast(RemoteMachine, OpenedAt("m2", {2: ("fd12::2", 4711)})))
    with pytest.raises(EmulationError, match="expected an address of its own in fd12::/64"):
        await links.open(cast(RemoteMachine, OpenedAt("m1", {1: (spelling, 4711)})))
