"""Nodes find a prefix while programs serve it and no longer, even if processes die meanwhile."""

from __future__ import annotations

import pytest

from tests.faults.conftest import FaultyRun, run_with_faults, worker

pytestmark = pytest.mark.faults


async def test_the_next_controller_learns_prefixes_and_withdraws_those_of_dead_programs(tmp_path):
    again = tmp_path / "again"

    async def faults(run: FaultyRun) -> None:
        await run.said("h1", "found the first")
        run.kill("controller")
        await run.said("innet", "the controller (pid")
        again.touch()
        await run.said("h1", "found the second")
        run.kill("h0")
        await run.said("h1", "withdrawn")

    result = await run_with_faults("star:2", worker("serves_again.py", again), faults)
    assert result.failure.startswith("h0 ")
    assert result.said("h1").splitlines() == ["found the first", "found the second", "withdrawn"]


async def test_routes_avoid_a_killed_spine(tmp_path):
    again = tmp_path / "again"

    async def faults(run: FaultyRun) -> None:
        await run.said("h1", "found the first")
        run.kill("spine0")
        run.kill("spine1")
        again.touch()
        await run.said("h1", "found the second")
        run.kill("h0")
        await run.said("h1", "withdrawn")

    result = await run_with_faults("leaf-spine:2x2x1", worker("serves_again.py", again), faults)
    assert result.failure.startswith("h0 ")
