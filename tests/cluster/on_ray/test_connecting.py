"""What is said when a Ray cluster does not take the launcher."""

from __future__ import annotations

import asyncio
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'innet[ray]'")

import grpc
from ray.exceptions import ActorDiedError, AuthenticationError, RayError

from innet.cluster.emulation.processes import SupervisedProcess
from innet.cluster.machines.messages import own_version
from innet.cluster.on_ray.actor import Joining, MachineActor, Report
from innet.cluster.on_ray.driver import Machines, address_of, connect, connect_problem, death
from innet.cluster.on_ray.launcher import RayMachines, RayOptions
from innet.cluster.on_ray.orders import Notice
from innet.errors import EmulationError


@pytest.mark.parametrize(
    ("address", "error", "expected"),
    [
        ("auto", ConnectionError("none found"), "no Ray cluster at auto: none found. Run `innet"),
        ("ray://h0:1", ConnectionError("timeout"), "at ray://h0:1: timeout. Check .* at h0:1 .ray"),
        ("auto", AuthenticationError("no token"), "refuses .*: no token. Give it .*MODE=token"),
        ("auto", RuntimeError("Version mismatch: 2.1"), "has another version: .* Install the same"),
    ],
)
def test_each_error_has_its_next_step(address, error, expected) -> None:
    assert re.search(expected, connect_problem(address, error))


def test_a_refused_token_is_named_whatever_wraps_the_error() -> None:
    error = ConnectionError("Failed to connect to Ray cluster at h0:1")
    error.__cause__ = RuntimeError("Unauthenticated: RPC error: InvalidAuthToken: ...")
    assert "refuses this process: its authentication token is missing or" in connect_problem(
        "auto", error
    )


def test_the_reason_for_a_refused_token_is_requested_from_the_client_server() -> None:
    def refuse(_: object, context: grpc.ServicerContext) -> None:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "no")

    handler = grpc.unary_unary_rpc_method_handler(refuse)
    service = grpc.method_handlers_generic_handler("ray.rpc.RayletDriver", {"ClusterInfo": handler})
    server = grpc.server(ThreadPoolExecutor(1), [service])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    said = connect_problem(f"ray://127.0.0.1:{port}", ConnectionError("timeout"))
    server.stop(0).wait()
    assert "refuses this process: its authentication token is missing" in said


def test_the_address_of_a_client_server_defaults_to_rays_port_and_environment(
    monkeypatch,
) -> None:
    assert address_of("ray://h0") == "ray://h0:10001"
    monkeypatch.setenv("RAY_ADDRESS", "ray://h1:7")
    assert address_of("auto") == "ray://h1:7"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert address_of("auto") == "10.0.0.1:6379"


def test_an_address_where_nothing_listens_is_named() -> None:
    with pytest.raises(EmulationError, match=r"no Ray cluster at ray://127.0.0.1:1: Connection re"):
        connect("ray://127.0.0.1:1")


@pytest.mark.parametrize(("failures", "connects"), [(2, True), (3, False)])
def test_a_late_client_server_is_contacted_again(monkeypatch, failures, connects) -> None:
    said = [ConnectionError("Initialization failure from server:\nlate")] * failures

    def init(*_: object, **__: object) -> None:
        if said:
            raise said.pop()

    monkeypatch.setattr("ray.init", init)
    monkeypatch.setattr("innet.cluster.on_ray.driver.require_server", lambda *_, **__: None)
    if connects:
        connect("ray://h0:1")
    else:
        with pytest.raises(EmulationError, match="Initialization failure from server: late"):
            connect("ray://h0:1")


def test_a_node_without_innet_is_named() -> None:
    error = RayError("it died:\nModuleNotFoundError: No module named 'innet'\n")
    assert "node of machine h1 cannot run innet: ModuleNotFoundError" in death("h1", error, 3)


def test_an_actor_that_exceeds_its_restarts_is_named() -> None:
    assert "the actor of machine h1 has died, after at most 3 restarts" in death(
        "h1", ActorDiedError(), 3
    )


async def test_another_version_of_innet_starts_no_agent() -> None:
    joining = Joining("h1", "10.0.0.1:4711", token="secret", key="key", version="0.0.0")
    report = await MachineActor().follow(joining)
    assert "has innet " in report.problem
    assert "the launcher has 0.0.0. Install the same version" in report.problem
    assert "secret" not in repr(joining)


LONG_LINE = "print('x' * 200_000); print('the next'); exit(3)"


async def test_an_agents_output_is_followed_past_a_long_line_to_its_end() -> None:
    actor = MachineActor()
    actor._agent = agent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", LONG_LINE), stdout=asyncio.subprocess.PIPE, limit=1 << 16
    )
    joining = Joining("h1", "10.0.0.1:4711", token="secret", key="key", version=own_version())
    await actor._read(agent)
    report = await actor.follow(joining)
    assert report.lines[-1] == "the next"
    assert any("was dropped" in line for line in report.lines)
    for _ in range(2):  # the first one may be lost with the connection to the actor
        async with asyncio.timeout(20):
            assert (await actor.follow(joining)).exit_code == 3


async def test_concurrent_calls_start_one_agent(monkeypatch) -> None:
    starts: list[Joining] = []

    async def started(self: MachineActor, joining: Joining) -> asyncio.subprocess.Process:
        starts.append(joining)
        await asyncio.sleep(0)
        for line in ("one", "two"):
            self._lines.put_nowait(line)
        return cast(asyncio.subprocess.Process, "an agent")

    monkeypatch.setattr(MachineActor, "_started", started)
    actor = MachineActor()
    joining = Joining("h1", "10.0.0.1:4711", token="secret", key="key", version=own_version())
    calls = [asyncio.ensure_future(actor.follow(joining)) for _ in range(2)]
    await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    assert len(starts) == 1
    for call in calls:
        call.cancel()


class Reports:
    """An actor that makes these reports, or fails with these errors."""

    def __init__(self, *outcomes: Report | RayError) -> None:
        self._outcomes = list(outcomes)
        self.follow = SimpleNamespace(remote=self._next)

    async def _next(self, _: Joining) -> Report:
        await asyncio.sleep(0)
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, RayError):
            raise outcome
        return outcome


async def test_machines_continue_without_one_that_cannot_return(monkeypatch) -> None:
    told: list[Notice] = []
    monkeypatch.setattr("innet.cluster.on_ray.driver.tell", told.append)
    machines = Machines.__new__(Machines)
    machines._order = cast(Any, SimpleNamespace(restarts=3))
    machines._actors = {
        "h1": Reports(ActorDiedError()),
        "h2": Reports(Report(exit_code=3)),
        "h3": Reports(Report(("one",)), Report(("two",)), Report(exit_code=0)),
    }
    joinings = [Joining(name, "h0:1", "token", "key", own_version()) for name in machines._actors]
    await asyncio.gather(*map(machines._follow, joinings))
    assert [notice.line for notice in told if notice.machine == "h3"] == ["one", "two"]
    errors = {notice.machine: notice.error for notice in told if notice.error}
    assert "has died, after at most 3 restarts" in errors["h1"]
    assert "the launcher refused machine h2. The last line" in errors["h2"]
    assert errors.keys() == {"h1", "h2"}


def ended(how: str, returncode: int = 1) -> SupervisedProcess:
    """A driver that has ended."""
    end = SimpleNamespace(describe_end=lambda: how, returncode=returncode, spec="a driver")
    return cast(SupervisedProcess, end)


def test_a_driver_that_dies_is_restarted_up_to_the_limit_of_machines() -> None:
    machines = RayMachines(RayOptions("ray", {"CPU": 1}, wait_s=1, restarts=1))
    started: list[str] = []
    machines._processes = cast(Any, SimpleNamespace(spawn=lambda spec, _: started.append(spec)))
    take = machines._sink(lambda *_: None)
    for how, code in (("exited with code 0", 0), ("was killed", -9)):  # the latter without machines
        machines._on_driver_ended(ended(how, code))
        assert machines._failures.get_nowait().startswith(f"the connection to Ray {how}. Check")
    for _ in range(2):
        take("ray", Notice(machine="h1", line="joined").model_dump_json())
        machines._on_driver_ended(ended("was killed", -9))
    assert started == ["a driver"]
    assert machines._failures.get_nowait().startswith("the connection to Ray was killed")


async def test_a_driver_without_machines_ends_at_once(monkeypatch) -> None:
    """As on Ctrl-C while Ray looks for room."""
    monkeypatch.setattr("innet.cluster.on_ray.launcher._END_S", 3600.0)
    has_ended = asyncio.Event()

    async def terminate() -> None:
        has_ended.set()

    machines = RayMachines(RayOptions("ray", {"CPU": 1}, wait_s=600, restarts=0))
    machines._driver = cast(Any, SimpleNamespace(wait=asyncio.Event().wait))
    machines._processes = cast(Any, SimpleNamespace(terminate=terminate))
    async with asyncio.timeout(20):
        await machines.close()
    assert has_ended.is_set()


async def test_each_failure_is_reported_and_the_end_of_the_driver_once() -> None:
    machines = RayMachines(RayOptions("ray", {"CPU": 1}, wait_s=1, restarts=0))
    said: list[str] = []
    take = machines._sink(lambda _label, line: said.append(line))
    for notice in (Notice(machine="h1", error="one"), Notice(machine="h2", line="said")):
        take("ray", notice.model_dump_json())
    machines._on_driver_ended(ended("was killed"))
    assert [await machines.failed() for _ in range(2)] == [
        "one",
        "the connection to Ray was killed. Check the cluster with `ray status`",
    ]
    assert said == ["said"]
    take("ray", Notice(error="no cluster").model_dump_json())
    machines._on_driver_ended(ended("exited with code 1"))
    assert await machines.failed() == "no cluster"
    assert machines._failures.empty()


def test_the_next_step_for_a_lost_machine_says_whether_ray_restarts_it() -> None:
    machines = RayMachines(RayOptions("ray", {"CPU": 1}, wait_s=1, restarts=0))
    take = machines._sink(lambda *_: None)
    assert "when `innet up` has printed that the machine is back" in machines.remedy("h1")
    take("ray", Notice(machine="h1", error="its actor died").model_dump_json())
    assert "Ray does not start it again: end the network" in machines.remedy("h1")
    assert "is back" in machines.remedy("h2")
    machines._on_driver_ended(ended("was killed"))
    assert "Ray does not start it again" in machines.remedy("h2")


def test_a_restarted_driver_starts_the_lost_machines() -> None:
    machines = RayMachines(RayOptions("ray", {"CPU": 1}, wait_s=1, restarts=1))
    machines._processes = cast(Any, SimpleNamespace(spawn=lambda *_: None))
    take = machines._sink(lambda *_: None)
    take("ray", Notice(machine="h1", error="its actor died").model_dump_json())
    take("ray", Notice(machine="h2", line="joined").model_dump_json())
    machines._on_driver_ended(ended("was killed", -9))
    assert "is back" in machines.remedy("h1")
