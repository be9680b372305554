"""What dies under a network on Ray: raylets, processes of innet, and Ray's head in the end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cluster.on_ray.ray_cluster import QUICK, SUMS, RayCluster, processes_with, sums
from tests.cluster.several_machines.machines import Machines, Program, machines, star

pytest.importorskip("ray", reason="Ray is not installed: pip install 'innet[ray]'")

pytestmark = [pytest.mark.netns, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]
WORKERS = Path(__file__).parents[1] / "several_machines" / "workers"
UNTIL_FAILURE = str(WORKERS / "until_failure.py")
UNTIL_FILE = str(WORKERS / "until_file.py")
ELASTIC = str(Path(__file__).with_name("elastic_trainer.py"))
LOST = r"machine (\S+) (?:has ended|does not answer)[^;]*; what ran there counts as ended"
STEPS = 10
"""So many that Ray has kept a checkpoint of some of them."""


@dataclass
class Outcome:
    """What programs printed, by scenario, and what was left in the end."""

    said: dict[str, str] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    steps: list[list[str]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


class Faults:
    """One network on Ray, and what dies under it one after the other."""

    def __init__(self, lab: Machines, ray: RayCluster, up: Program, name: str) -> None:
        self.outcome = Outcome()
        self._lab = lab
        self._ray = ray
        self._up = up
        self._name = name

    def _job(self, *argv: str) -> Program:
        return self._lab.innet("h0", "run", "--on", self._name, *argv)

    async def _ended(self, scenario: str, program: Program) -> None:
        self.outcome.codes[scenario] = await program.ends()
        self.outcome.said[scenario] = program.text

    async def waits_for_a_raylet(self) -> None:
        """Kill a raylet during a job, and start another one; its machine comes back there."""
        seen = len(self._up.lines)
        job = await self._job_under_way("wait")
        await self._ray.kill_raylet("h2")
        await self._ray.add("h2", "rack=a")
        await self._is_back(1, seen)
        await self._ended("wait", job)
        self.outcome.said["wait up"] = "\n".join(self._up.lines[seen:])

    async def shrinks(self) -> None:
        """Kill a raylet during a job that goes on without its rank."""
        seen = len(self._up.lines)
        job = await self._job_under_way("shrink")
        await self._ray.kill_raylet("h2")
        await self._ended("shrink", job)
        self.outcome.said["shrink up"] = "\n".join(self._up.lines[seen:])

    async def _job_under_way(self, policy: str) -> Program:
        job = self._job("--on-worker-death", policy, "--", "python", UNTIL_FAILURE, policy)
        await job.says("rank 2 is under way")
        return job

    async def _is_back(self, machines: int, seen: int) -> None:
        """Wait until so many machines have come back since ``seen`` lines."""
        while sum("is back" in line for line in self._up.lines[seen:]) < machines:  # noqa: ASYNC110
            await asyncio.sleep(0.1)

    async def trains_elastically(self) -> None:
        """Ray Train goes on with fewer workers when a node dies, and with more by another one."""
        directory = self._lab.folder / "elastic"
        directory.mkdir()
        training = self._ray.python(ELASTIC, self._name, str(directory))
        await self._until_size(training, directory, 3)
        await self._ray.kill("h3")
        await self._until_size(training, directory, 2)
        await self._ray.add("h4", "rack=a")
        await self._until_size(training, directory, 3)
        (directory / "stop").touch()
        await self._ended("elastic", training)
        self.outcome.steps = self._steps(directory)

    def _steps(self, directory: Path) -> list[list[str]]:
        steps = directory / "steps"
        return [line.split() for line in steps.read_text().splitlines()] if steps.exists() else []

    async def _until_size(self, training: Program, directory: Path, size: int) -> None:
        """Wait until so many ranks have made some steps."""
        assert training.process is not None
        while [step[0] for step in self._steps(directory)[-STEPS:]] != [str(size)] * STEPS:
            assert training.process.returncode is None, training.text
            await asyncio.sleep(0.1)

    async def loses_the_controller(self) -> None:
        """A job goes on while the launcher starts another controller."""
        stop = self._lab.folder / "stop"
        job = self._job("--", "python", UNTIL_FILE, str(stop))
        await job.says("sums")
        record = json.loads((self._lab.folder / f"h0/innet/{self._name}/run.json").read_text())
        (controller,) = [p for p in record["processes"] if p["label"] == "controller"]
        os.kill(controller["identity"]["pid"], signal.SIGKILL)
        await self._up.says("starting it again (1 of 10)")
        await job.says("sums", len(job.lines) + 2)
        stop.touch()
        await self._ended("controller", job)

    async def loses_the_driver(self) -> None:
        """Ray ends the machines of a driver that is killed; another one starts them again."""
        seen = len(self._up.lines)
        os.kill(self._ray.pid_of("innet.cluster.on_ray.driver"), signal.SIGKILL)
        await self._is_back(3, seen)
        self.outcome.said["driver up"] = "\n".join(self._up.lines[seen:])
        await self._ended("driver", self._job("--", "python", SUMS))

    async def loses_the_head(self) -> None:
        """Ray ends without its GCS: a job and the next one fail, and `innet down` still works."""
        hosts = sorted({"h1", "h2", "h3"} - set(re.findall(LOST, self.outcome.said["shrink up"])))
        job = self._job("--hosts", ",".join(hosts), "--", "python", UNTIL_FAILURE)
        await job.says("rank 1 is under way")
        os.kill(self._ray.pid_of("gcs/gcs_server"), signal.SIGKILL)
        await self._up.says("the head of the Ray cluster at 10.0.0.1:6379 has not answered")
        await self._ended("head", job)
        await self._up.says("not every lost machine can come back")
        await self._ended("next", self._job("--", "python", SUMS))
        await self._ended("down", self._lab.innet("h0", "down", self._name))
        await self._ended("up", self._up)
        while processes_with(self._name) or processes_with("innet-join-"):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        folder = str(self._lab.folder)
        self.outcome.left = [
            found
            for found in self._lab.leftovers()
            if found.startswith(folder) or "-m innet" in found
        ]


async def all_faults() -> Outcome:
    async with machines(5) as lab:
        ray = RayCluster(lab)
        await ray.start({"h1": "rack=a", "h2": "rack=a", "h3": "rack=a"})
        name = f"faults-{uuid.uuid4().hex[:8]}"
        three = star(["h1", "h2", "h3"])
        up = ray.up(three, "--on", "ray", "--reserve", "CPU=0.5", *QUICK, name=name)
        await up.says("is up")
        faults = Faults(lab, ray, up, name)
        await faults.loses_the_driver()
        await faults.loses_the_controller()
        await faults.trains_elastically()
        await faults.waits_for_a_raylet()
        await faults.shrinks()
        await faults.loses_the_head()
        return faults.outcome


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return asyncio.run(all_faults())


@pytest.mark.parametrize(("policy", "ranks"), [("shrink", 2), ("wait", 3)])
def test_a_job_follows_its_policy_when_a_raylet_is_killed(outcome, policy, ranks) -> None:
    said = outcome.said[policy]
    assert outcome.codes[policy] == 0, said
    assert len(re.findall(rf"goes on as rank \d of {ranks}", said)) == ranks
    (lost,) = re.findall(LOST, outcome.said[f"{policy} up"])
    assert len(re.findall(rf"saw: .*machine {lost}", said)) == 2
    told = said + outcome.said[f"{policy} up"]
    assert "Ray on its machine has ended or was killed" in told
    assert "taken down" not in told
    assert "ended before" not in told


def test_ray_train_continues_with_the_remaining_machines(outcome) -> None:
    assert outcome.codes["elastic"] == 0, outcome.said["elastic"]
    sizes = [step[0] for step in outcome.steps]
    groups = [n for n, size in enumerate(sizes) if n == 0 or size != sizes[n - 1]]
    assert [sizes[n] for n in groups] == ["3", "2", "3"]
    assert all(int(outcome.steps[n][1]) > 1 for n in groups[1:])  # they began at a checkpoint
    machines = {size: set(step[2:]) for size, *step in ((s[0], *s) for s in outcome.steps)}
    assert machines["3"] == {"h1", "h2", "h3"}
    assert len(machines["2"]) == 2


@pytest.mark.parametrize("scenario", ["controller", "driver"])
def test_jobs_run_after_a_process_of_innet_was_killed(outcome, scenario) -> None:
    assert outcome.codes[scenario] == 0, outcome.said[scenario]


def test_another_driver_starts_the_same_machines(outcome) -> None:
    assert (
        "the connection to Ray was killed by signal 9 (SIGKILL); Ray starts the machines again"
        in outcome.said["driver up"]
    )
    assert len(set(sums(outcome.said["driver"]))) == 1


def test_the_end_of_the_head_is_reported(outcome) -> None:
    assert outcome.codes["head"] != 0
    assert re.search(r"rank \d \(h\d\) .*machine h\d", outcome.said["head"])
    assert re.search("cannot run: .* Ray does not start it again", outcome.said["next"])
    assert re.search("can come back: .*(no Ray cluster|Check the cluster)", outcome.said["up"])
    assert outcome.codes["down"] == 0


def test_no_process_is_left_after_the_faults(outcome) -> None:
    assert outcome.left == []
