"""The sums of a running job move away from a link that a second job fills."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from innet.cluster.emulation.runs import find_run
from innet.cluster.launch import Session
from innet.cluster.measured_load import MeasuredLoad, read_load
from innet.errors import ControlError
from innet.settings import Settings
from innet.topology import Topology, load_topology
from tests.said import Said

HOSTS_OF_A = ("h0", "h1", "h3", "h4")
WORKER = Path(__file__).parent / "workers" / "repeats.py"
SETTINGS = [
    "placement.interval_s=0.5",
    "placement.confirmations=2",
    "recovery.heartbeat_interval_s=0.25",
]


def two_spines() -> Topology:
    """Two racks of three, and slow links to two spines, of which the first is nearer."""
    topology = load_topology("leaf-spine:2x2x3").with_overrides(rate_bps=100e6)
    links = [
        link.model_copy(
            update={"rate_bps": 40e6, "delay_s": 2e-3 if "spine1" in link.nodes else 1e-3}
        )
        if not set(link.nodes).isdisjoint({"spine0", "spine1"})
        else link
        for link in topology.links
    ]
    return topology.model_copy(update={"links": tuple(links)})


def repeating(elements: int, end: Path) -> list[str]:
    return [sys.executable, str(WORKER), str(elements), str(end)]


async def loaded(run_id: str) -> MeasuredLoad:
    """The load, once it shows that job b fills its link: between operations it does not."""
    while True:
        load = await asyncio.to_thread(read_load, find_run(run_id))
        others_bps = load.load.used_bps("leaf0", "spine0")
        if load.jobs["b"].get(("leaf0", "spine0"), 0.0) > 5e6 and others_bps > 20e6:
            return load


@pytest.mark.netns
def test_sums_of_a_running_job_move_from_the_spine_that_a_second_job_fills(tmp_path):
    moved = "the sums of group 'g0' of job a move from spine0 to spine1"

    async def run() -> tuple[Said, MeasuredLoad]:
        said = Said()
        settings = Settings().with_assignments(SETTINGS)
        async with Session(two_spines(), mode="netns", settings=settings, output=said) as session:
            first = asyncio.ensure_future(
                session.run_workers(
                    repeating(1 << 16, tmp_path / "end"),
                    algorithm="inc",
                    hosts=HOSTS_OF_A,
                    job_name="a",
                )
            )
            await said.until(("h0", "step"))
            with pytest.raises(ControlError, match="give one of them"):
                await session.run_workers(["true"], hosts=("h2",), ranks=1)
            second = asyncio.ensure_future(
                session.run_workers(
                    repeating(1 << 20, tmp_path / "never"),
                    algorithm="inc:roots=spine0",
                    ranks=2,
                    job_name="b",
                )
            )
            await said.until_part("controller", moved)
            load = await loaded(session.network.run_id)
            (tmp_path / "end").touch()
            await first
            second.cancel()
            await asyncio.wait([second])
            return said, load

    said, load = asyncio.run(run())
    for host in HOSTS_OF_A:
        assert said.by(host)[-1] == "different results: 1"
    assert load.taken == set(two_spines().hosts), "the hosts that job a leaves are those of b"
