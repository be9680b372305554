"""On several machines: removed run directories end no job, and workers save on SIGTERM."""

from __future__ import annotations

import asyncio
import shutil
import signal
from pathlib import Path

import pytest

from tests.cluster.several_machines.machines import (
    Machines,
    Program,
    kill,
    launched,
    machines,
    star,
)

pytestmark = [pytest.mark.netns, pytest.mark.cluster]
UNTIL_FILE = str(Path(__file__).parent / "workers" / "until_file.py")
RANKS = ("h1", "h2")
WARNING = "Running jobs go on; nothing new can start on this network or reach it"
SAVES = (
    "trap 'sleep 3; touch {}/saved$RANK; exit 1' TERM; echo works; while true; do sleep 0.05; done"
)


def remove_directories(lab: Machines, machine: str) -> None:
    """What a program that cleans up temporary files does on a machine."""
    shutil.rmtree(lab.folder / machine / "innet")


@pytest.mark.parametrize("machine", ["h0", "h2"])
async def test_a_job_on_several_machines_outlives_a_removed_directory(machine: str) -> None:
    async with machines(3) as lab:
        up, agents = await launched(lab, star(RANKS), RANKS)
        stop = lab.folder / "stop"
        job = lab.innet("h0", "run", "--on", "net", "--", "python", UNTIL_FILE, str(stop))
        await job.says("sums")
        await asyncio.to_thread(remove_directories, lab, machine)
        warned = up if machine == "h0" else agents[machine]
        await warned.says(WARNING)
        await job.says("sums", sum("sums" in line for line in job.lines) + 2)
        stop.touch()
        assert await job.ends() == 0, job.text
        assert warned.text.count(WARNING) == 1
        if machine == "h0":  # it has no job, and nothing reaches it
            assert await up.ends() != 0
        else:
            assert await lab.innet("h0", "down", "net").ends() == 0
        for agent in agents.values():
            await agent.ends()
        assert lab.leftovers() == []


async def ends_of(lab: Machines, cause: str, job: Program, agents: dict[str, Program]) -> None:
    """End a job in one of the ways in which users do."""
    if cause == "interrupt":
        kill(job, signal.SIGINT)
    elif cause == "down":
        assert await lab.innet("h0", "down", "net").ends() == 0
    else:
        kill(agents["h2"], signal.SIGTERM)
        await agents["h2"].ends()


@pytest.mark.parametrize("cause", ["interrupt", "down", "agent"])
async def test_workers_on_other_machines_have_time_to_save(cause: str) -> None:
    async with machines(3) as lab:
        _, agents = await launched(lab, star(RANKS), RANKS)
        script = SAVES.format(lab.folder)
        job = lab.innet("h0", "run", "--on", "net", "--", "sh", "-c", script)
        await job.says("works", 2)
        await ends_of(lab, cause, job, agents)
        await job.ends()
        saved = {path.name for path in lab.folder.glob("saved*")}
        assert "killed" not in job.text
        assert saved >= ({"saved1"} if cause == "agent" else {"saved0", "saved1"})
