"""Links that go down, switches that hang, processes without descriptors: right bits, or a cause."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from tests.faults.conftest import FaultyRun, digests, run_with_faults, worker
from tests.faults.links import set_link

pytestmark = pytest.mark.faults

LEAF_SPINE = "leaf-spine:2x2x2"


@pytest.mark.netns
async def test_operations_go_on_when_a_link_that_went_down_is_up_again():
    async def faults(run: FaultyRun) -> None:
        (link,) = (x for x in run.session.topology.links if set(x.nodes) == {"leaf0", "spine0"})
        for node in ("leaf0", "spine0"):  # either end: the carrier of both goes
            await run.said_again("h0", "step")
            set_link(run.session.network.run_id, node, link.end_at(node).port, "down")
            await asyncio.sleep(1)
            set_link(run.session.network.run_id, node, link.end_at(node).port, "up")
            await run.said_again("h0", "step")

    result = await run_with_faults(
        LEAF_SPINE, worker("steps.py", 60, 20000, 0.1), faults, mode="netns"
    )
    assert result.failure == ""
    assert len(digests(result)) == 1


@pytest.mark.parametrize("mode", ["local", pytest.param("netns", marks=pytest.mark.netns)])
async def test_a_switch_that_hangs_is_gone_round_until_it_answers_again(mode):
    async def faults(run: FaultyRun) -> None:
        await run.said("h0", "step 5")
        pid = run.pid("spine0")
        os.kill(pid, signal.SIGSTOP)
        await run.said("controller", "switch spine0 has not answered for 0.5 s")
        for _ in range(10):
            await run.said_again("h0", "step")
        os.kill(pid, signal.SIGCONT)
        await run.said("controller", "switch spine0 answers again")

    heartbeats = ["recovery.heartbeat_interval_s=0.2", "recovery.heartbeat_timeout_s=0.5"]
    result = await run_with_faults(
        LEAF_SPINE, worker("steps.py", 100, 20000, 0.1), faults, mode=mode, settings=heartbeats
    )
    assert result.failure == ""
    assert len(digests(result)) == 1


async def test_a_process_without_descriptors_says_so():
    result = await run_with_faults("star:2", worker("no_descriptors.py"))
    assert result.failure.startswith("h1 ")
    assert "descriptor" in result.said("h1") or "open files" in result.said("h1")
    assert "rank 1 (h1)" in result.said("h0")
