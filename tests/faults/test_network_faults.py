"""Links that go down, networks that fall apart, switches that hang: right bits, or a cause."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from innet.topology import Topology, load_topology
from tests.faults.conftest import FaultyRun, digests, run_with_faults, worker
from tests.faults.links import set_link

pytestmark = pytest.mark.faults

LEAF_SPINE = "leaf-spine:2x2x2"


@pytest.mark.netns
async def test_operations_continue_when_a_link_is_up_again():
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
async def test_a_hung_switch_is_avoided_until_it_answers(mode):
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


@pytest.mark.netns
async def test_a_link_that_stays_down_is_avoided_until_it_is_up():
    async def faults(run: FaultyRun) -> None:
        run_id = run.session.network.run_id
        await run.said("h0", "step 5")
        set_link(run_id, "leaf0", "eth2", "down")
        await run.said("controller", "the link leaf0--spine0 has carried nothing for 1 s; the netw")
        for _ in range(10):
            await run.said_again("h0", "step")
        set_link(run_id, "leaf0", "eth2", "up")
        await run.said("controller", "the link leaf0--spine0 carries packets again")

    result = await run_with_faults(
        LEAF_SPINE,
        worker("steps.py", 100, 20000, 0.1),
        faults,
        mode="netns",
        settings=["recovery.link_timeout_s=1", "collectives.timeout_s=20"],
    )
    assert result.failure == ""
    assert len(digests(result)) == 1


@pytest.mark.netns
async def test_an_unreachable_host_ends_the_group_with_an_error_that_names_the_link():
    async def faults(run: FaultyRun) -> None:
        await run.said("h0", "step 5")
        set_link(run.session.network.run_id, "h1", "eth0", "down")
        await run.said("controller", "the link h1--leaf0 has carried nothing for 1 s")

    result = await run_with_faults(
        LEAF_SPINE,
        worker("steps.py", 100000, 1000, 0.01),
        faults,
        mode="netns",
        settings=["recovery.link_timeout_s=1", "recovery.partition_timeout_s=2"],
    )
    cause = "the link h1--leaf0 has carried nothing for 2 s; no other path leads from h0 to h1"
    for host in ("h0", "h1", "h2", "h3"):
        assert "CollectiveError: allreduce(sum.f32, shape (1000,)) seq=" in result.said(host)
        assert cause in result.said(host)


@pytest.mark.netns
async def test_a_partition_that_heals_in_time_costs_nothing_but_time():
    async def faults(run: FaultyRun) -> None:
        run_id = run.session.network.run_id
        await run.said("h0", "step 5")
        for port in ("eth2", "eth3"):
            set_link(run_id, "leaf1", port, "down")
        await run.said("controller", "the link leaf1--spine0 has carried nothing for 0.5 s")
        await run.said("controller", "the link leaf1--spine1 has carried nothing for 0.5 s")
        for port in ("eth2", "eth3"):
            set_link(run_id, "leaf1", port, "up")
        await run.said("controller", "the link leaf1--spine1 carries packets again")

    result = await run_with_faults(
        LEAF_SPINE,
        worker("steps.py", 80, 20000, 0.1),
        faults,
        mode="netns",
        settings=["recovery.link_timeout_s=0.5"],
    )
    assert result.failure == ""
    assert len(digests(result)) == 1


async def test_a_permanently_hung_switch_on_the_only_path_is_named_long_before_the_deadline():
    async def faults(run: FaultyRun) -> None:
        await run.said("h0", "step 5")
        os.kill(run.pid("s0"), signal.SIGSTOP)
        await run.said("controller", "switch s0 has not answered for 0.5 s")

    settings = [
        "recovery.heartbeat_interval_s=0.2",
        "recovery.heartbeat_timeout_s=0.5",
        "recovery.partition_timeout_s=1",
    ]
    result = await run_with_faults(
        "star:3", worker("steps.py", 100000, 1000, 0.01), faults, settings=settings
    )
    cause = "switch s0 has not answered for 1 s; no other path leads from h0 to h1"
    for host in ("h0", "h1", "h2"):
        assert "CollectiveError: allreduce(sum.f32, shape (1000,)) seq=" in result.said(host)
        assert cause in result.said(host)


def with_bad_uplink(**quality: float) -> Topology:
    """A leaf-spine network with one link of that quality, between a leaf and a spine."""
    topology = load_topology("leaf-spine:2x2x2")
    links = tuple(
        link.model_copy(update=quality) if set(link.nodes) == {"leaf0", "spine0"} else link
        for link in topology.links
    )
    return topology.model_copy(update={"links": links})


@pytest.mark.parametrize("mode", ["local", pytest.param("netns", marks=pytest.mark.netns)])
async def test_a_link_that_loses_a_third_stays_in_use(mode):
    result = await run_with_faults(
        with_bad_uplink(loss=0.3), worker("steps.py", 60, 20000, 0.05), mode=mode
    )
    good = await run_with_faults("leaf-spine:2x2x2", worker("steps.py", 60, 20000, 0))
    assert result.failure == good.failure == ""
    assert digests(result) == digests(good)
    assert "carried nothing" not in result.said("controller")


async def test_a_corrupting_link_changes_no_bit():
    result = await run_with_faults(
        with_bad_uplink(corrupt=0.2), worker("steps.py", 60, 20000, 0.05)
    )
    good = await run_with_faults("leaf-spine:2x2x2", worker("steps.py", 60, 20000, 0))
    assert result.failure == good.failure == ""
    assert digests(result) == digests(good)
    assert "carried nothing" not in result.said("controller")
