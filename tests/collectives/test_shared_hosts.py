"""Two hosts with two workers each: ranks of one host and of two work together."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import innet
from innet.collectives import Communicator
from innet.topology import load_topology

TWO_BY_TWO = load_topology("star:2").with_workers(2).with_overrides(rate_bps=1e9)
MODES = ["local", pytest.param("netns", marks=[pytest.mark.netns, pytest.mark.jobs])]


@pytest.mark.parametrize("mode", MODES)
def test_every_operation_works_within_a_host_and_across_hosts(run_job, mode):
    scripts = ["on_shared_hosts.py", "every_collective.py"]
    result = run_job(scripts, topology=TWO_BY_TWO, mode=mode)
    assert result.failure == ""
    for rank, (host, number) in enumerate(product(range(2), range(2))):
        said = result.said(f"h{host}.{number}", "on_shared_hosts.py").splitlines()
        assert said == [f"{rank} 4 {number} 2 {host}", "all right"]
        assert result.said(f"h{host}.{number}", "every_collective.py") == "all right"
    assert result.status["h0"]["reducer"]["reductions_completed"] > 0


@pytest.mark.jobs
@pytest.mark.parametrize("algorithm", ["ring", "ps", "halving-doubling", "auto"])
def test_every_operation_by_other_algorithms(run_job, algorithm):
    scripts = ["on_shared_hosts.py", "every_collective.py"]
    assert run_job(scripts, topology=TWO_BY_TWO, algorithm=algorithm).failure == ""


def bytes_on_host_links(workers: int) -> list[int]:
    """What each direction of each host's link carries for one large allreduce."""
    topology = load_topology("star:4").with_workers(workers).with_overrides(rate_bps=1e9)
    values = np.ones(1 << 20, np.float32)

    async def program(comm: Communicator) -> None:
        total = await comm.iallreduce(values)
        assert (total == comm.size).all()

    with innet.Simulation(topology) as sim:
        sim.run(*(program(comm) for comm in sim.group(algorithm="inc")))
        counters = sim.network.link_counters()
    return [
        counters[ends]["sent_bytes"]
        for host in topology.machines
        for ends in ((host, "s0"), ("s0", host))
    ]


def test_a_host_link_carries_one_contribution_and_one_sum_for_all_its_workers():
    alone, shared = bytes_on_host_links(1), bytes_on_host_links(8)
    for one, eight in zip(alone, shared, strict=True):
        assert 4 << 20 < eight < 1.02 * one
