"""What is said when a Ray cluster does not take the launcher."""

from __future__ import annotations

import asyncio
import re
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'innet[ray]'")

from ray.exceptions import ActorDiedError, AuthenticationError, RayError

from innet.cluster.emulation.processes import SupervisedProcess
from innet.cluster.machines.messages import own_version
from innet.cluster.on_ray.actor import Joining, MachineActor, Report
from innet.cluster.on_ray.driver import Machines, connect, connect_problem, death
from innet.cluster.on_ray.launcher import RayMachines, RayOptions
from innet.cluster.on_ray.orders import Notice
from innet.errors import EmulationError


@pytest.mark.parametrize(
    ("address", "error", "expected"),
    [
        ("auto", ConnectionError("none found"), "no Ray cluster at auto: none found. Run `innet"),
        ("ray://h0:1", ConnectionError("timeout"), "listens at h0:1 .* set RAY_USE_TLS as there"),
        ("auto", AuthenticationError("no token"), "refuses this process: .*RAY_AUTH_MODE=token"),
        ("auto", RuntimeError("Version mismatch: 2.1"), "has another version: .* Install the same"),
    ],
)
def test_the_next_step_fits_the_error(address, error, expected) -> None:
    assert re.search(expected, connect_problem(address, error))


@pytest.mark.parametrize(("failures", "connects"), [(2, True), (3, False)])
def test_a_client_server_that_is_late_is_asked_again(monkeypatch, failures, connects) -> None:
    said = [ConnectionError("Initialization failure from server:\nlate")] * failures

    def init(*_: object, **__: object) -> None:
        if said:
            raise said.pop()

    monkeypatch.setattr("ray.init", init)
    if connects:
        connect("ray://h0:1")
    else:
        with pytest.raises(EmulationError, match="Initialization failure from server: late"):
            connect("ray://h0:1")


def test_a_node_without_innet_is_named() -> None:
    error = RayError("it died:\nModuleNotFoundError: No module named 'innet'\n")
    assert "node of machine h1 cannot run innet: ModuleNotFoundError" in death("h1", error, 3)


def test_an_actor_that_died_too_often_is_named() -> None:
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


async def test_an_agent_is_followed_past_a_long_line_to_an_end_that_is_told_again() -> None:
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


async def test_machines_go_on_without_one_that_cannot_come_back(monkeypatch) -> None:
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


def ended(how: str) -> SupervisedProcess:
    """A driver that has ended."""
    return cast(SupervisedProcess, SimpleNamespace(describe_end=lambda: how))


async def test_each_failure_is_told_and_the_end_of_the_driver_once() -> None:
    machines = RayMachines(RayOptions("ray", {"CPU": 1}, wait_s=1, restarts=0))
    said: list[str] = []
    take = machines._sink(lambda _label, line: said.append(line))
    for notice in (Notice(machine="h1", error="one"), Notice(machine="h2", line="said")):
        take("ray", notice.model_dump_json())
    machines._on_driver_ended(ended("was killed"))
    assert [await machines.failed() for _ in range(2)] == [
        "one",
        "the connection to Ray was killed",
    ]
    assert said == ["said"]
    take("ray", Notice(error="no cluster").model_dump_json())
    machines._on_driver_ended(ended("exited with code 1"))
    assert await machines.failed() == "no cluster"
    assert machines._failures.empty()
