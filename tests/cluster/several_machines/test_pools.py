"""A pool of blocks whose members are on several machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.several_machines.machines import kill, launched, machines, star

pytestmark = [pytest.mark.netns, pytest.mark.cluster]
BLOCKS = str(Path(__file__).parent / "workers" / "blocks.py")


async def test_a_pool_loses_only_the_blocks_of_a_lost_machine() -> None:
    async with machines(4) as lab:
        names = ["h1", "h2", "h3"]
        up, agents = await launched(lab, star(names, s0="cache: 0"), names)
        job = lab.innet(
            *("h0", "run", "--on", "net", "--on-worker-death", "shrink"),
            *("--", "python", BLOCKS, str(lab.folder)),
        )
        await job.says("got 40 of 40")
        kill(agents["h3"])
        await up.says("what ran there counts as ended")
        await job.says("got ", len(job.lines) + 2)
        (count,) = {line.split()[2] for line in job.lines[-1:]}
        assert 0 < int(count) < 40, job.text
        (lab.folder / "again").touch()
        full = sum("got 40 of 40" in line for line in job.lines)
        await job.says("got 40 of 40", full + 1)
        (lab.folder / "stop").touch()
        assert await job.ends() == 0, job.text
