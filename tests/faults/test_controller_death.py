"""The controller is killed: nothing that runs stops, and its successor knows what it knew."""

from __future__ import annotations

import asyncio

import pytest

from innet.cluster.emulation.runs import find_run
from innet.cluster.run_status import read_run_status
from tests.faults.conftest import FaultyRun, digests, run_with_faults, worker

pytestmark = pytest.mark.faults


async def test_a_job_continues_and_forms_groups_with_the_next_controller(tmp_path):
    async def faults(run: FaultyRun) -> None:
        await run.said("h0", "step 100")
        run.kill("controller")
        await run.said("innet", "the controller (pid")
        status = await asyncio.to_thread(until_it_answers, run.session.network.run_id)
        assert [(g["name"], g["joined"]) for g in status.groups] == [("g0", [0, 1, 2])]
        (tmp_path / "again").touch()
        await run.said("h0", "pair 2")

    result = await run_with_faults(
        "star:3", worker("group_afterwards.py", tmp_path / "again"), faults
    )
    assert result.failure == ""
    assert [text for label, text in result.lines if label.startswith("h")][-3:] == ["again 3"] * 3
    assert "SIGKILL); starting it again (1 of 10)" in result.said("innet")


async def test_the_death_of_controller_and_spine_changes_no_bit():
    async def faults(run: FaultyRun) -> None:
        await run.said("h0", "step 5")
        run.kill("controller")
        run.kill("spine0")
        await run.said("innet", "switch spine0 is back")

    topology = "leaf-spine:2x2x2"
    undisturbed = await run_with_faults(topology, worker("steps.py", 80, 20000, 0))
    disturbed = await run_with_faults(topology, worker("steps.py", 80, 20000, 0.1), faults)
    assert disturbed.failure == undisturbed.failure == ""
    assert digests(disturbed) == digests(undisturbed)
    assert len(digests(disturbed)) == 1


async def test_a_worker_that_dies_while_the_controller_is_away_is_named(tmp_path):
    async def faults(run: FaultyRun) -> None:
        await run.said("h0", "step 100")
        run.kill("controller")
        run.kill("h1")

    result = await run_with_faults(
        "star:3", worker("group_afterwards.py", tmp_path / "never"), faults
    )
    assert result.failure.startswith("h1 ")
    assert "rank 1 (h1) was killed by signal 9" in result.said("h0")


def until_it_answers(run_id: str):
    """The run's status, once its controller tells of groups again."""
    while not (status := read_run_status(find_run(run_id))).groups:
        pass
    return status
