"""Processes that stand still for five seconds and go on: nothing fails, and no bit changes."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from tests.faults.conftest import FaultyRun, digests, run_with_faults, worker

pytestmark = [pytest.mark.faults, pytest.mark.netns]

STOPPED_FOR_S = 5


@pytest.mark.parametrize("topology", ["star:3", "leaf-spine:2x2x2"])
@pytest.mark.parametrize("who", ["switch", "worker", "controller"])
async def test_a_process_stopped_for_five_seconds_fails_nothing(topology, who):
    async def faults(run: FaultyRun) -> None:
        target = {"switch": run.session.topology.switches[0], "worker": "h1"}.get(who, who)
        await run.said("h0", "step 5")
        os.kill(run.pid(target), signal.SIGSTOP)
        await asyncio.sleep(STOPPED_FOR_S)  # the length of the fault; nothing waits for it
        os.kill(run.pid(target), signal.SIGCONT)
        for _ in range(5):
            await run.said_again("h0", "step")

    result = await run_with_faults(
        topology, worker("steps.py", 100, 20000, 0.1), faults, mode="netns"
    )
    assert result.failure == ""
    assert len(digests(result)) == 1
