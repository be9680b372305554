"""A network whose machines Ray starts: its results, its failures, its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.on_ray.ray_cluster import (
    CLIENT_SERVER,
    QUICK,
    SUMS,
    RayCluster,
    processes_with,
    sums,
)
from tests.cluster.several_machines.machines import Machines, Program, kill, machines, star

pytest.importorskip("ray", reason="Ray is not installed: pip install 'innet[ray]'")
pytest.importorskip("torch")

import torch

from tests.torch_backend.ray.alone import weights_learned_alone

pytestmark = [pytest.mark.netns, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]
TRAINER = str(Path(__file__).with_name("trainer.py"))
RACKS = star(["h1", "h2"], h1="machine: {rack: b}", h2="machine: {rack: a}")
FROM_RAY = "name: all\ntopology:\n  generate: {kind: from-ray, workers: per-processor}\n"


@dataclass
class Outcome:
    """What programs printed, by scenario, and what was left after each."""

    said: dict[str, str] = field(default_factory=dict)
    left: dict[str, list[str]] = field(default_factory=dict)
    trained: list[list[Any]] = field(default_factory=list)


class Scenarios:
    """Networks on one Ray cluster, one after the other."""

    def __init__(self, lab: Machines, ray: RayCluster) -> None:
        self.outcome = Outcome()
        self._lab = lab
        self._ray = ray
        # Machines of tests share their processes: networks of others must not have these names.
        self._mark = uuid.uuid4().hex[:8]

    def _name(self, scenario: str) -> str:
        return f"{scenario}-{self._mark}"

    async def _launched(self, scenario: str, topology: str, *options: str) -> Program:
        up = self._ray.up(topology, *options, *QUICK, name=self._name(scenario))
        await up.says("is up")
        return up

    async def _runs_a_job(self, scenario: str) -> str:
        job = self._lab.innet("h0", "run", "--on", self._name(scenario), "--", "python", SUMS)
        code = await job.ends()
        return f"{job.text}\nexit code {code}"

    async def _ended(self, scenario: str, up: Program) -> None:
        """Wait until all processes have ended, and Ray has taken note; then see what is left."""
        await up.ends()
        while processes_with(self._mark) or processes_with("innet-join-"):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        runs = str(self._lab.folder)
        left = [
            found
            for found in self._lab.leftovers()
            if found.startswith(runs) or "-m innet" in found
        ]  # the others are those of Ray
        self.outcome.left[scenario] = left + await self._ray.leftovers()
        self.outcome.said[f"{scenario} up"] = up.text

    async def ends_by_down(self) -> None:
        """A job and a training on machines that labels select, and a launcher without room."""
        up = await self._launched("down", RACKS, "--on", "ray")
        self.outcome.said["job"] = await self._runs_a_job("down")
        options = ("--on", "ray", "--reserve", "CPU=2", "--wait", "2s")
        waiting = self._ray.up(RACKS, *options, name=self._name("waits"))
        directory = self._lab.folder / "trained"
        directory.mkdir()
        training = self._ray.python(TRAINER, self._name("down"), str(directory))
        assert await training.ends() == 0, training.text
        self.outcome.trained = [
            json.loads((directory / f"rank-{rank}.json").read_text()) for rank in range(2)
        ]
        await waiting.ends()
        self.outcome.said["waits"] = waiting.text
        await self._lab.innet("h0", "down", self._name("down")).ends()
        await self._ended("down", up)

    async def is_generated(self) -> None:
        """A topology of the cluster at hand, through its client server; Ctrl-C."""
        up = await self._launched("made", FROM_RAY, "--on", CLIENT_SERVER)
        self.outcome.said["generated job"] = await self._runs_a_job("made")
        kill(up, signal.SIGINT)
        await self._ended("made", up)

    async def has_no_room(self) -> None:
        """Labels that no node has."""
        other = star(["h1", "h2"], h1="machine: {rack: c}")
        up = self._ray.up(other, "--on", "ray", name=self._name("labels"))
        await self._ended("labels", up)

    async def loses_the_launcher(self) -> None:
        """An agent is killed and its machine comes back; then the launcher is killed."""
        up = await self._launched("lost", RACKS, "--on", "ray")
        os.kill(self._agent_of("h2"), signal.SIGKILL)
        await up.says("machine h2 is back")
        self.outcome.said["after agent"] = await self._runs_a_job("lost")
        kill(up)
        await up.ends()
        await self._lab.innet("h0", "down", self._name("lost")).ends()
        await self._ended("lost", up)

    def _agent_of(self, machine: str) -> int:
        """The process of the agent on a machine."""
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                line = (directory / "cmdline").read_bytes().split(b"\0")
                environment = (directory / "environ").read_bytes()
            except OSError:
                continue
            here = str(self._lab.folder / machine).encode()
            is_agent = line[3:6] == [b"innet", b"node", b"join"] and machine.encode() in line
            if is_agent and here in environment:
                return int(directory.name)
        raise AssertionError(f"{machine} has no agent")


async def all_scenarios() -> Outcome:
    async with machines(3) as lab:
        ray = RayCluster(lab)
        await ray.start({"h1": "rack=b", "h2": "rack=a"})
        scenarios = Scenarios(lab, ray)
        await scenarios.ends_by_down()
        await scenarios.is_generated()
        await scenarios.has_no_room()
        await scenarios.loses_the_launcher()
        return scenarios.outcome


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return asyncio.run(all_scenarios())


@pytest.mark.parametrize(("job", "ranks"), [("job", 2), ("generated job", 4), ("after agent", 2)])
def test_ranks_on_machines_of_ray_have_equal_bits(outcome, job, ranks) -> None:
    """Also after an agent was killed, and the machine came back."""
    found = sums(outcome.said[job])
    assert (len(found), len(set(found))) == (ranks, 1), outcome.said[job]


def test_ray_train_on_both_machines_learns_what_one_process_learns(outcome) -> None:
    where = {(address, host) for address, host, _, _ in outcome.trained}
    assert where == {("10.0.0.2", "h1"), ("10.0.0.3", "h2")}
    assert {backend for _, _, backend, _ in outcome.trained} == {"innet"}
    weights = [learned for _, _, _, learned in outcome.trained]
    assert weights[0] == weights[1]
    for learned, expected in zip(weights[0], weights_learned_alone(2), strict=True):
        torch.testing.assert_close(torch.tensor(learned), torch.tensor(expected))


@pytest.mark.parametrize("scenario", ["down", "made", "labels", "lost"])
def test_nothing_is_left_after_any_end(outcome, scenario) -> None:
    """By `innet down`, Ctrl-C, an error, the launcher's death."""
    assert outcome.left[scenario] == []


def test_the_output_of_agents_reaches_the_terminal(outcome) -> None:
    assert "[h1] joined network" in outcome.said["down up"]


def test_a_machine_that_no_node_matches_is_named(outcome) -> None:
    assert "can be machine h1, which needs rack=c: its nodes have" in outcome.said["labels up"]


def test_machines_without_resources_are_named_during_and_after_the_wait(outcome) -> None:
    said = outcome.said["waits"]
    assert "waiting up to 2 s for room on Ray: no node with CPU 2 free is left for h1 (rack" in said
    assert "Ray has found no room within 2 s" in said
