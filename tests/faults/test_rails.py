"""Rails that break while a job runs: their sums move to the others, with the same bits."""

from __future__ import annotations

import pytest

from innet.topology import load_topology
from tests.faults.conftest import FaultyRun, digests, run_with_faults, worker
from tests.faults.links import set_link
from tests.faults.test_switch_death import NO_RESTARTS, reductions

RAILS = "rails:4x2"
ELEMENTS = 64_000


async def test_the_other_rail_adds_the_sums_of_a_dead_switch():
    made: list[int] = []

    async def faults(run: FaultyRun) -> None:
        await run.said("h0", "step 5")
        made.append(await reductions(run, "r1"))
        run.kill("r1")
        await run.said("h0", "step 20")
        before = await reductions(run, "r0")
        await run.said("h0", "step 30")
        made.append(await reductions(run, "r0") - before)

    result = await run_with_faults(
        RAILS, worker("steps.py", 50, ELEMENTS, 0.02), faults, settings=NO_RESTARTS
    )
    assert result.failure == ""
    assert len(digests(result)) == 1
    of_both, of_one = made
    # Four segments a step: r1 made two of them, and r0 makes all.
    assert of_both >= 2 * 5
    assert of_one >= 4 * 9


@pytest.mark.faults
@pytest.mark.netns
@pytest.mark.parametrize("workers", [1, 2])
async def test_both_rails_add_again_when_a_link_of_a_host_is_up_again(workers):
    async def faults(run: FaultyRun) -> None:
        run_id = run.session.network.run_id
        speaker = run.session.topology.hosts[0]
        await run.said(speaker, "step 5")
        assert await reductions(run, "r1") > 0
        set_link(run_id, "h1", "eth1", "down")
        await run.said("controller", "the link h1--r1 has carried nothing for 1 s; the network")
        await run.said_again(speaker, "step")
        await run.said_again(speaker, "step")
        before = await reductions(run, "r1")
        for _ in range(10):
            await run.said_again(speaker, "step")
        assert await reductions(run, "r1") == before
        set_link(run_id, "h1", "eth1", "up")
        await run.said("controller", "the link h1--r1 carries packets again")
        for _ in range(10):
            await run.said_again(speaker, "step")
        assert await reductions(run, "r1") > before

    topology = load_topology(RAILS).with_workers(workers)
    steps = worker("steps.py", 100, ELEMENTS, 0.1)
    settings = ["recovery.link_timeout_s=1", "collectives.timeout_s=20"]
    disturbed = await run_with_faults(topology, steps, faults, mode="netns", settings=settings)
    undisturbed = await run_with_faults(topology, worker("steps.py", 100, ELEMENTS, 0))
    assert disturbed.failure == undisturbed.failure == ""
    assert digests(disturbed) == digests(undisturbed)
    assert len(digests(disturbed)) == 1
