"""Processes that can open no more files: they go on, or say that this is what they lack."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import psutil
import pytest

from innet.errors import NoAnswer
from innet.node.controller_client import CONTROLLER_SOCKET_NAME, ControllerClient
from tests.faults.conftest import FaultyRun, digests, run_with_faults, worker

pytestmark = pytest.mark.faults

QUESTIONS = 20


async def test_a_worker_that_cannot_start_without_descriptors_reports_it():
    result = await run_with_faults("star:2", worker("no_descriptors.py"))
    assert result.failure.startswith("h1 ")
    assert "descriptor" in result.said("h1") or "open files" in result.said("h1")
    assert "rank 1 (h1)" in result.said("h0")


@pytest.mark.netns
@pytest.mark.parametrize("who", ["spine0", "h1"])
async def test_a_process_without_descriptors_continues_and_answers_all(who):
    async def faults(run: FaultyRun) -> None:
        await run.said("h0", "step 5")
        process = psutil.Process(run.pid(who))
        descriptors = process.num_fds()
        process.rlimit(psutil.RLIMIT_NOFILE, (descriptors, descriptors))
        for _ in range(QUESTIONS):
            with run.session.connect(who) as asking:
                await asyncio.to_thread(asking.request, "ping")
        worked_s, began_s = processor_s(process), time.monotonic()
        for _ in range(20):
            await run.said_again("h0", "step")
        assert process.num_fds() <= descriptors
        # A thread in a busy loop takes a whole processor.
        assert processor_s(process) - worked_s < (time.monotonic() - began_s) / 2

    def processor_s(process: psutil.Process) -> float:
        return process.cpu_times().user + process.cpu_times().system

    result = await run_with_faults(
        "leaf-spine:2x2x2", worker("steps.py", 100, 20000, 0.1), faults, mode="netns"
    )
    assert result.failure == ""
    assert len(digests(result)) == 1


@pytest.mark.netns
async def test_a_controller_without_descriptors_is_restarted_and_the_run_continues():
    async def faults(run: FaultyRun) -> None:
        await run.said("h0", "step 5")
        process = psutil.Process(run.pid("controller"))
        process.rlimit(psutil.RLIMIT_NOFILE, (16, 16))
        path = run.session.network.run_dir / CONTROLLER_SOCKET_NAME
        with ControllerClient(path) as asking, suppress(NoAnswer):
            await asyncio.to_thread(asking.request, "ping", timeout_s=1.0)
        await run.said("innet", "the controller (pid")
        with ControllerClient(path) as asking:
            await asyncio.to_thread(asking.request, "ping")
        for _ in range(20):
            await run.said_again("h0", "step")

    result = await run_with_faults(
        "leaf-spine:2x2x2", worker("steps.py", 100, 20000, 0.1), faults, mode="netns"
    )
    assert result.failure == ""
    assert len(digests(result)) == 1
