"""However a rank on another machine ends, each other rank knows within 5 s, in the same words."""

from __future__ import annotations

import re
import time
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
from tests.faults.conftest import WORKERS
from tests.faults.test_every_end import ALGORITHMS, ENDINGS, KNOWN_WITHIN_S, wrong

pytestmark = [pytest.mark.netns, pytest.mark.cluster, pytest.mark.timeout(1800)]
RANKS = ("h1", "h2", "h3")


def job_that_ends(
    lab: Machines, ending: str, algorithm: str, backend: str, folder: Path
) -> Program:
    """A job whose rank on ``h2`` ends."""
    folder.mkdir()
    return lab.innet(
        *("h0", "run", "--on", "net", "--algorithm", algorithm, "--", "python"),
        *(str(WORKERS / "ends.py"), ending, backend, str(folder)),
    )


def lines_of(job: Program) -> list[tuple[str, str]]:
    """What each rank printed."""
    found = (re.match(r"\[(\w+)\] (.*)", line) for line in job.lines)
    return [(match[1], match[2]) for match in found if match]


@pytest.mark.parametrize("backend", ["numpy", "torch"])
async def test_ranks_on_other_machines_know_soon_of_every_end(backend: str) -> None:
    found = []
    async with machines(4) as lab:
        await launched(lab, star(RANKS), RANKS)
        for number, ending in enumerate(ENDINGS):
            algorithm = ALGORITHMS[number % len(ALGORITHMS)]
            job = job_that_ends(lab, ending, algorithm, backend, lab.folder / f"end{number}")
            await job.ends()
            found += wrong(ending, lines_of(job), RANKS)
    assert found == []


async def test_ranks_know_soon_that_an_agent_was_killed() -> None:
    async with machines(4) as lab:
        _, agents = await launched(lab, star(RANKS), RANKS, settings=())
        job = job_that_ends(lab, "waits", "ring", "numpy", lab.folder / "end")
        await job.says("ends at")
        killed_s = time.monotonic()
        kill(agents["h2"])
        await job.says("knows", 2)
        await job.ends()
    for node in ("h1", "h3"):
        (known,) = (line for label, line in lines_of(job) if label == node and "knows" in line)
        assert "rank 1 (h2) was lost with its machine" in known
        assert float(known.rpartition(" ")[2]) - killed_s <= KNOWN_WITHIN_S
