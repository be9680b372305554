"""Switches and controllers that die: pools of blocks are as before when they are back."""

from __future__ import annotations

import asyncio

import pytest

from innet.cluster.emulation.runs import find_run
from innet.cluster.run_status import read_run_status
from tests.faults.conftest import FaultyRun, run_with_faults, worker

pytestmark = pytest.mark.faults


async def test_a_restarted_switch_and_controller_know_the_pools(tmp_path):
    async def faults(run: FaultyRun) -> None:
        await run.said("h1", "here among h0, h1")
        run.kill("s0")
        await run.said("innet", "switch s0 is back")
        await run.said_again("h1", "here among h0, h1")
        run.kill("controller")
        await run.said("innet", "the controller (pid")
        pools = await asyncio.to_thread(pools_of, run.session.network.run_id)
        assert [pool["members"] for pool in pools] == [{"h0": 1, "h1": 2}]
        await run.said_again("h1", "here among h0, h1")
        (tmp_path / "stop").touch()

    result = await run_with_faults("star:2", worker("pool.py", tmp_path / "stop"), faults)
    assert result.failure == ""


def pools_of(run_id: str):
    """The pools of the run, once its controller answers."""
    while not (status := read_run_status(find_run(run_id))).pools:
        pass
    return status.pools
