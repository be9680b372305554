"""Ranks on machines that Ray has started: every end is known soon, and workers save on SIGTERM."""

from __future__ import annotations

import asyncio
import shutil
import signal
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cluster.on_ray.ray_cluster import QUICK, RayCluster
from tests.cluster.several_machines.machines import Machines, Program, kill, machines, star
from tests.cluster.several_machines.test_directories_and_grace import SAVES, UNTIL_FILE, WARNING
from tests.cluster.several_machines.test_every_end import RANKS, lines_of
from tests.faults.conftest import WORKERS
from tests.faults.test_every_end import ALGORITHMS, ENDINGS, wrong

pytest.importorskip("ray", reason="Ray is not installed: pip install 'innet[ray]'")

pytestmark = [pytest.mark.netns, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]


@asynccontextmanager
async def network_on_ray() -> AsyncIterator[tuple[Machines, Program, str]]:
    """Machines, the launcher of a network that Ray has started on them, and its name."""
    async with machines(4) as lab:
        ray = RayCluster(lab)
        await ray.start(dict.fromkeys(RANKS, "rack=a"))
        name = f"ends-{uuid.uuid4().hex[:8]}"
        up = ray.up(star(RANKS), "--on", "ray", "--reserve", "CPU=0.5", *QUICK, name=name)
        await up.says("is up")
        yield lab, up, name


async def test_ranks_on_ray_know_soon_of_every_end_and_save_when_interrupted() -> None:
    found = []
    async with network_on_ray() as (lab, _, name):
        for number, ending in enumerate(ENDINGS):
            folder: Path = lab.folder / f"end{number}"
            await asyncio.to_thread(folder.mkdir)
            job = lab.innet(
                *("h0", "run", "--on", name, "--algorithm", ALGORITHMS[number % len(ALGORITHMS)]),
                *("--", "python", str(WORKERS / "ends.py"), ending, "numpy", str(folder)),
            )
            await job.ends()
            found += wrong(ending, lines_of(job), RANKS)
        script = SAVES.format(lab.folder)
        job = lab.innet("h0", "run", "--on", name, "--", "sh", "-c", script)
        await job.says("works", 3)
        kill(job, signal.SIGINT)
        await job.ends()
        assert len(list(lab.folder.glob("saved*"))) == 3, job.text
        assert await lab.innet("h0", "down", name).ends() == 0
    assert found == []


async def test_a_job_on_ray_outlives_the_removed_directory_of_the_launcher() -> None:
    async with network_on_ray() as (lab, up, name):
        stop = lab.folder / "stop"
        job = lab.innet("h0", "run", "--on", name, "--", "python", UNTIL_FILE, str(stop))
        await job.says("sums")
        await asyncio.to_thread(shutil.rmtree, lab.folder / "h0" / "innet")
        await up.says(WARNING)
        await job.says("sums", sum("sums" in line for line in job.lines) + 2)
        stop.touch()
        assert await job.ends() == 0, job.text
        assert await up.ends() != 0  # it has no job, and nothing reaches it
