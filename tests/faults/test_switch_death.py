"""A switch dies in mid-operation: the job goes on with the same bits, or says what it needs."""

from __future__ import annotations

import asyncio

import pytest

from tests.faults.conftest import FaultyRun, digests, run_with_faults, worker

LEAF_SPINE = "leaf-spine:2x2x2"
NO_RESTARTS = ["recovery.switch_restarts=0"]


@pytest.mark.faults
async def test_the_death_of_a_spine_and_a_leaf_changes_no_bit():
    async def faults(run: FaultyRun) -> None:
        await run.said("h0", "step 5")
        run.kill("spine0")
        await run.said("innet", "switch spine0 is back")
        run.kill("leaf1")
        await run.said("innet", "switch leaf1 is back")

    undisturbed = await run_with_faults(LEAF_SPINE, worker("steps.py", 60, 20000, 0))
    disturbed = await run_with_faults(LEAF_SPINE, worker("steps.py", 60, 20000, 0.1), faults)
    assert disturbed.failure == undisturbed.failure == ""
    assert digests(disturbed) == digests(undisturbed)
    assert len(digests(disturbed)) == 1


async def test_the_other_spine_makes_the_sums_of_a_dead_one():
    async def faults(run: FaultyRun) -> None:
        await run.said("h0", "step 5")
        run.kill("spine0")
        await run.said("h0", "step 20")
        before = await reductions(run, "spine1")
        await run.said("h0", "step 30")
        # Ten steps of two segments each; with spine0 alive it would make half of them.
        made = await reductions(run, "spine1") - before
        run.result.status["spine1"] = {"made": made}

    result = await run_with_faults(
        LEAF_SPINE, worker("steps.py", 50, 32000, 0.02), faults, settings=NO_RESTARTS
    )
    assert result.failure == ""
    assert len(digests(result)) == 1
    assert result.status["spine1"]["made"] >= 18


@pytest.mark.faults
async def test_signing_rights_of_nodes_move_with_the_sums():
    """Each node signs with its own key: spine1's counts for what spine0 made, once that is dead."""

    async def faults(run: FaultyRun) -> None:
        await run.said("h0", "step 5")
        run.kill("spine0")
        await run.said("h0", "step 20")
        run.result.status["spine1"] = {"made": await reductions(run, "spine1")}
        with run.session.connect("leaf0") as client:
            run.result.status["leaf0"] = (await asyncio.to_thread(client.request, "status"))["node"]

    result = await run_with_faults(
        LEAF_SPINE,
        worker("steps.py", 30, 4000, 0.02),
        faults,
        settings=[*NO_RESTARTS, "security.signature=ed25519"],
    )
    assert result.failure == ""
    assert len(digests(result)) == 1
    assert result.status["spine1"]["made"] > 0
    assert result.status["leaf0"]["key_out_of_scope"] == 0


@pytest.mark.faults
async def test_a_job_without_another_path_ends_at_once_and_names_the_switch():
    async def faults(run: FaultyRun) -> None:
        await run.said("h0", "step 5")
        run.kill("s0")

    result = await run_with_faults(
        "star:3", worker("steps.py", 100000, 1000, 0), faults, settings=NO_RESTARTS
    )
    assert "switch s0" in result.failure
    assert "SIGKILL" in result.failure
    assert "no other path leads from h0 to h1" in result.failure
    assert not any("DeadlineExceeded" in line for _, line in result.lines)


async def test_a_job_continues_when_the_only_switch_returns():
    async def faults(run: FaultyRun) -> None:
        for step in ("step 5", "step 40"):
            await run.said("h0", step)
            run.kill("s0")
            await run.said_again("innet", "switch s0 is back")

    result = await run_with_faults("star:3", worker("steps.py", 80, 1000, 0.02), faults)
    assert result.failure == ""
    assert len(digests(result)) == 1
    told = result.said("innet")
    assert "SIGKILL); starting it again (1 of 3)" in told
    assert "SIGKILL); starting it again (2 of 3)" in told


async def reductions(run: FaultyRun, switch: str) -> int:
    """How many sums a switch has made so far."""
    with run.session.connect(switch) as client:
        status = await asyncio.to_thread(client.request, "status")
    made: int = status["reducer"]["reductions_completed"]
    return made
