"""Wires between machines that break, in whole or in part, or become slow."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.cluster.several_machines.cuts import Cuts
from tests.cluster.several_machines.machines import (
    QUICK,
    Machines,
    Program,
    launched,
    machines,
    star,
    two_spines,
)

pytestmark = [pytest.mark.netns, pytest.mark.cluster]
WORKERS = Path(__file__).parent / "workers"
PARTITION_S = 10.0


def summing(lab: Machines, *arguments: str) -> Program:
    """A job on all hosts that sums until :func:`stopped`."""
    program = (str(WORKERS / "until_file.py"), str(lab.folder / "stop"), *arguments)
    return lab.innet("h0", "run", "--on", "net", "--", "python", *program)


async def stopped(lab: Machines, job: Program) -> None:
    """Let a job end, and check that it ends well."""
    (lab.folder / "stop").touch()
    assert await job.ends() == 0, job.text


async def taken_down(lab: Machines, agents: dict[str, Program]) -> None:
    """Take the network down, and check that nothing is left."""
    assert await lab.innet("h0", "down", "net").ends() == 0
    assert [await agent.ends() for agent in agents.values()] == [0] * len(agents)
    assert lab.leftovers() == []


async def test_a_job_survives_a_partition_shorter_than_the_timeouts() -> None:
    async with machines(3) as lab:
        settings = ("--set", "recovery.machine_timeout_s=40")
        up, agents = await launched(lab, star(["h1", "h2"]), ["h1", "h2"], settings=settings)
        job = summing(lab)
        await job.says("sums")
        cuts = Cuts(lab)
        await cuts.part("h2")
        await asyncio.sleep(PARTITION_S)
        await cuts.rejoin("h2")
        await job.says("sums", len(job.lines) + 2)
        await stopped(lab, job)
        assert "what ran there counts as ended" not in up.text
        await taken_down(lab, agents)


async def test_a_job_shrinks_after_a_partition_longer_than_the_timeout() -> None:
    async with machines(4) as lab:
        names = ["h1", "h2", "h3"]
        up, agents = await launched(lab, star(names), names)
        job = lab.innet(
            *("h0", "run", "--on", "net", "--on-worker-death", "shrink"),
            *("--", "python", str(WORKERS / "until_failure.py"), "shrink"),
        )
        await job.says("rank 2 is under way")
        cuts = Cuts(lab)
        await cuts.part("h3")
        assert await job.ends() == 0, job.text
        assert "machine h3 does not answer for 2 s" in await job.says("rank 0 saw")
        await job.says("goes on as rank 1 of 2")
        await agents["h3"].says("the launcher does not answer for 2 s")
        await cuts.rejoin("h3")
        await up.says("machine h3 is back")
        await taken_down(lab, agents)


async def test_a_job_ends_on_a_slow_wire_and_doctor_names_it() -> None:
    async with machines(3) as lab:
        await launched(lab, star(["h1", "h2"]), ["h1", "h2"])
        job = summing(lab, "1000000", "1")
        await job.says("sums")
        await Cuts(lab).slow_down("h2", "10mbit")
        await job.says("sums", len(job.lines) + 2)
        doctor = lab.innet("h0", "doctor", "net")
        assert await doctor.ends() == 1, doctor.text
        assert "h2→s0" in doctor.text or "s0→h2" in doctor.text, doctor.text
        assert "h1→s0" not in doctor.text, doctor.text
        await stopped(lab, job)


async def test_sums_avoid_a_cut_link_between_live_machines() -> None:
    async with machines(5) as lab:
        names = ["h1", "h2", "h3", "h4"]
        up, agents = await launched(lab, two_spines(), names)
        job = summing(lab)
        await job.says("sums")
        await Cuts(lab).cut_links("h0", "h3")
        await job.says("sums", len(job.lines) + 2)
        doctor = lab.innet("h0", "doctor", "net", "--seconds", "4")
        assert await doctor.ends() == 1, doctor.text
        assert "s0--s2" in doctor.text, doctor.text
        await stopped(lab, job)
        assert "what ran there counts as ended" not in up.text
        await taken_down(lab, agents)


async def test_a_job_that_loses_the_only_link_of_a_machine_fails_and_names_it() -> None:
    async with machines(3) as lab:
        settings = (*QUICK, "--set", "recovery.partition_timeout_s=1")
        up, agents = await launched(lab, star(["h1", "h2"]), ["h1", "h2"], settings=settings)
        job = summing(lab)
        await job.says("sums")
        await Cuts(lab).cut_links("h0", "h2")
        assert await job.ends() != 0
        assert "h2--s0" in job.text or "s0--h2" in job.text, job.text
        assert "what ran there counts as ended" not in up.text
        await taken_down(lab, agents)


async def test_doctor_names_a_path_whose_mtu_has_shrunk_since_launch() -> None:
    async with machines(3) as lab:
        await launched(lab, star(["h1", "h2"]), ["h1", "h2"])
        job = summing(lab)
        await job.says("sums")
        await Cuts(lab).narrow("h2", 1000)
        doctor = lab.innet("h0", "doctor", "net", "--seconds", "3")
        assert await doctor.ends() == 1, doctor.text
        assert "datagrams of s0 to h2" in doctor.text, doctor.text
