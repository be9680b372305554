"""Jobs that share a simulated network, and the objects of their hosts."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import innet
from innet.collectives import Communicator
from innet.errors import DeadlineExceeded, SimulationError
from innet.lab.simulation import SimulatedJob
from innet.topology import load_topology

JOBS = (SimulatedJob("a", ("h0", "h1")), SimulatedJob("b", ("h2", "h3"), weight=3))


async def total(comm: Communicator) -> float:
    result = await comm.iallreduce(np.full(3000, 1.0 + comm.rank))
    return float(result[7])


def test_concurrent_jobs_each_have_their_share_of_the_slots() -> None:
    with innet.Simulation(load_topology("star:4"), jobs=JOBS, audit_interval=1) as sim:
        groups = [sim.group(job.hosts, algorithm="inc", name="g0") for job in JOBS]
        assert sim.run(*(total(comm) for group in groups for comm in group)) == [3.0] * 4
        jobs = {job["prefix"]: job for job in sim.network.nodes["s0"].status()["jobs"]}
        assert jobs["/b"]["slots_guaranteed"] == 3 * jobs["/a"]["slots_guaranteed"]
        sim.crash("s0")
        sim.restart("s0")
        assert sim.run(*(total(comm) for group in groups for comm in group)) == [3.0] * 4


def test_a_host_and_its_groups_belong_to_one_job() -> None:
    topology = load_topology("star:4")
    sim = innet.Simulation(topology, jobs=JOBS)
    with pytest.raises(SimulationError, match="belong to one job; h1, h2 are of: a, b"):
        sim.group(("h1", "h2"))
    sim.close()
    with pytest.raises(SimulationError, match="'h0' of job 'c' is in two jobs"):
        innet.Simulation(topology, jobs=(*JOBS, SimulatedJob("c", ("h0",))))
    with pytest.raises(SimulationError, match="'h9' of job 'c' is not a host"):
        innet.Simulation(topology, jobs=(SimulatedJob("c", ("h9",)),))


def test_objects_are_signed_by_their_host_and_readable_only_in_its_job() -> None:
    weights = np.arange(5000.0)
    with innet.Simulation(load_topology("star:4"), jobs=JOBS, audit_interval=1) as sim:
        group, others = (sim.group(job.hosts, name="g0", timeout_s=1.0) for job in JOBS)

        async def offer(comm: Communicator) -> bool:
            await comm.ipublish("weights", weights)
            return True

        async def read(comm: Communicator) -> bool:
            await asyncio.sleep(0.1)
            return bool((await comm.ifetch("weights", 0)).tobytes() == weights.tobytes())

        async def pry(comm: Communicator) -> bool:
            with pytest.raises(DeadlineExceeded):
                await comm.ifetch("weights", 0)
            return True

        assert all(sim.run(offer(group[0]), read(group[1]), pry(others[1])))
