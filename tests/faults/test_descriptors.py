"""Processes that can open no more files: they go on, or say that this is what they lack."""

from __future__ import annotations

import asyncio
import time

import psutil
import pytest

from innet.control.client import ControlClient
from innet.launch.controller_process import CONTROLLER_SOCKET_NAME
from tests.faults.conftest import FaultyRun, digests, run_with_faults, worker

pytestmark = pytest.mark.faults

QUESTIONS = 20


async def test_a_worker_that_cannot_begin_without_descriptors_says_so():
    result = await run_with_faults("star:2", worker("no_descriptors.py"))
    assert result.failure.startswith("h1 ")
    assert "descriptor" in result.said("h1") or "open files" in result.said("h1")
    assert "rank 1 (h1)" in result.said("h0")


@pytest.mark.netns
@pytest.mark.parametrize("who", ["spine0", "controller", "h1"])
async def test_who_runs_out_of_descriptors_goes_on_and_still_answers_everybody(who):
    async def faults(run: FaultyRun) -> None:
        await run.said("h0", "step 5")
        process = psutil.Process(run.pid(who))
        descriptors = process.num_fds()
        process.rlimit(psutil.RLIMIT_NOFILE, (descriptors, descriptors))
        for _ in range(QUESTIONS):
            with client(run) as asking:
                await asyncio.to_thread(asking.ask, "ping")
        worked_s, began_s = processor_s(process), time.monotonic()
        for _ in range(20):
            await run.said_again("h0", "step")
        assert process.num_fds() <= descriptors
        # A thread that goes round and round takes all it can get.
        assert processor_s(process) - worked_s < (time.monotonic() - began_s) / 2

    def processor_s(process: psutil.Process) -> float:
        return process.cpu_times().user + process.cpu_times().system

    def client(run: FaultyRun) -> ControlClient:
        if who == "controller":
            return ControlClient(run.session.network.run_dir / CONTROLLER_SOCKET_NAME, who=who)
        return run.session.connect(who)

    result = await run_with_faults(
        "leaf-spine:2x2x2", worker("steps.py", 100, 20000, 0.1), faults, mode="netns"
    )
    assert result.failure == ""
    assert len(digests(result)) == 1
