"""What is said when a Ray cluster does not take the launcher."""

from __future__ import annotations

import asyncio
import re
import sys

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'innet[ray]'")

from ray.exceptions import ActorDiedError, AuthenticationError, RayError

from innet.cluster.machines.messages import own_version
from innet.cluster.on_ray.actor import Joining, MachineActor
from innet.cluster.on_ray.driver import connect, connect_problem, death
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
