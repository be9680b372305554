"""Machines that fail, and come back."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.cluster.several_machines.machines import kill, launched, machines, star, two_spines

pytestmark = [pytest.mark.netns, pytest.mark.cluster]
WORKERS = Path(__file__).parent / "workers"
SUMS = str(WORKERS / "sums.py")
UNTIL_FAILURE = str(WORKERS / "until_failure.py")
SERVES_PROMPTS = str(Path(__file__).parents[2] / "faults" / "workers" / "kv_replay.py")


async def test_ranks_of_a_killed_machine_are_named_and_it_returns() -> None:
    async with machines(3) as lab:
        up, agents = await launched(lab, star(["h1", "h2"]), ["h1", "h2"])
        job = lab.innet("h0", "run", "--on", "net", "--", "python", UNTIL_FAILURE)
        await job.says("rank 1 is under way")
        kill(agents["h2"])
        assert await job.ends() != 0
        lost = "was lost with its machine: machine h2 does not answer for 2 s"
        assert f"rank 1 (h2) {lost}" in await job.says("rank 0 saw")
        assert lost in await job.says("error: h2")
        refused = lab.innet("h0", "run", "--on", "net", "--", "python", SUMS)
        assert await refused.ends() != 0
        assert "Let the machine join again" in refused.text
        agents["h2"] = lab.join("h2", "h2")
        await up.says("machine h2 is back")
        job = lab.innet("h0", "run", "--on", "net", "--", "python", SUMS)
        assert await job.ends() == 0, job.text
        assert await lab.innet("h0", "down", "net").ends() == 0
        assert [await agent.ends() for agent in agents.values()] == [0, 0]
        assert lab.leftovers() == []


async def test_a_shrinking_job_continues_without_a_machine() -> None:
    async with machines(4) as lab:
        names = ["h1", "h2", "h3"]
        _, agents = await launched(lab, star(names), names)
        job = lab.innet(
            *("h0", "run", "--on", "net", "--on-worker-death", "shrink"),
            *("--", "python", UNTIL_FAILURE, "shrink"),
        )
        await job.says("rank 2 is under way")
        kill(agents["h3"])
        assert await job.ends() == 0, job.text
        assert "lost: h3" in job.text
        await job.says("goes on as rank 1 of 2")


async def test_a_pool_loses_only_the_blocks_of_a_lost_machine() -> None:
    async with machines(4) as lab:
        names = ["h1", "h2", "h3"]
        _, agents = await launched(lab, star(names), names)
        stop = lab.folder / "stop"
        job = lab.innet(
            *("h0", "run", "--on", "net", "--elastic", "--", "python", SERVES_PROMPTS, str(stop))
        )
        for name in names:
            await job.says(f"[{name}] whole", 20)
        kill(agents["h3"])
        seen = len(job.lines)
        whole = {name: job.text.count(f"[{name}] whole") for name in ("h1", "h2")}
        for name, count in whole.items():
            await job.says(f"[{name}] whole", count + 50)
        stop.touch()
        assert await job.ends() == 0, job.text
        assert "lost: h3" in job.text
        assert "wrong bytes" not in job.text
        missed = [line for line in job.lines[seen:] if "missed" in line]
        assert len(missed) <= 2 * 12, missed  # each rank, each prompt


async def test_a_waiting_job_continues_when_the_machine_returns() -> None:
    async with machines(3) as lab:
        up, agents = await launched(lab, star(["h1", "h2"]), ["h1", "h2"])
        job = lab.innet(
            *("h0", "run", "--on", "net", "--on-worker-death", "wait"),
            *("--", "python", UNTIL_FAILURE, "wait"),
        )
        await job.says("rank 1 is under way")
        kill(agents["h2"])
        await up.says("what ran there counts as ended")
        agents["h2"] = lab.join("h2", "h2")
        await job.says("goes on as rank 1 of 2")
        assert await job.ends() == 0, job.text


async def test_sums_move_away_from_the_switches_of_a_lost_machine() -> None:
    async with machines(5) as lab:
        up, agents = await launched(lab, two_spines(), ["h1", "h2", "h3", "h4"])
        job = lab.innet(
            *("h0", "run", "--on", "net", "--algorithm", "inc"),
            *("--", "python", str(WORKERS / "until_file.py"), str(lab.folder / "stop")),
        )
        await job.says("sums")
        for machine, switch in (("h3", "s2"), ("h4", "s3")):
            kill(agents[machine])
            await up.says(f"switch {switch} (")
            await job.says("sums", len(job.lines) + 2)
            agents[machine] = lab.join(machine, machine)
            await up.says(f"switch {switch} is back")
        (lab.folder / "stop").touch()
        assert await job.ends() == 0, job.text


async def test_an_agent_that_hangs_is_lost_and_joins_again() -> None:
    async with machines(3) as lab:
        up, agents = await launched(lab, star(["h1", "h2"]), ["h1", "h2"])
        job = lab.innet("h0", "run", "--on", "net", "--", "python", UNTIL_FAILURE)
        await job.says("rank 1 is under way")
        kill(agents["h2"], signal.SIGSTOP)
        assert await job.ends() != 0
        assert "machine h2 does not answer for 2 s" in await job.says("rank 0 saw")
        kill(agents["h2"], signal.SIGCONT)
        await agents["h2"].says("joined network net as machine h2", 2)
        await up.says("machine h2 is back")
        job = lab.innet("h0", "run", "--on", "net", "--", "python", SUMS)
        assert await job.ends() == 0, job.text


async def test_a_machine_keeps_its_identity_at_another_address() -> None:
    async with machines(4) as lab:
        up, agents = await launched(lab, star(["h1", "h2"]), ["h1", "h2"])
        kill(agents["h2"], signal.SIGINT)
        await agents["h2"].ends()
        await up.says("what ran there counts as ended")
        agents["h2"] = lab.join("h2", "h2", at="h3")
        await up.says("machine h2 is back")
        job = lab.innet("h0", "run", "--on", "net", "--hosts", "h2,h1", "--", "python", SUMS)
        assert await job.ends() == 0, job.text
        await job.says("master 10.0.0.4")


async def test_jobs_continue_when_the_controller_is_killed() -> None:
    async with machines(3) as lab:
        up, agents = await launched(lab, star(["h1", "h2"]), ["h1", "h2"])
        job = lab.innet(
            *("h0", "run", "--on", "net", "--", "python"),
            *(str(WORKERS / "until_file.py"), str(lab.folder / "stop")),
        )
        await job.says("sums")
        record = json.loads((lab.folder / "h0" / "innet" / "net" / "run.json").read_text())
        (controller,) = (p for p in record["processes"] if p["label"] == "controller")
        os.kill(controller["identity"]["pid"], signal.SIGKILL)
        await up.says("starting it again (1 of")
        await job.says("sums", len(job.lines) + 2)
        (lab.folder / "stop").touch()
        assert await job.ends() == 0, job.text
        job = lab.innet("h0", "run", "--on", "net", "--", "python", SUMS)
        assert await job.ends() == 0, job.text
        assert await lab.innet("h0", "down", "net").ends() == 0
        assert [await agent.ends() for agent in agents.values()] == [0, 0]
        assert lab.leftovers() == []
