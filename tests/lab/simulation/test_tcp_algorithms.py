"""The baselines over TCP as algorithms of a comparison, beside innet's own."""

from __future__ import annotations

import numpy as np
import pytest

import innet
from innet.errors import DeadlineExceeded, InnetError
from innet.lab.compare.measurement import Comparison, Machine
from innet.lab.compare.summary import summary_sentences
from innet.lab.experiment.outcome import outcome
from innet.lab.experiment.sweep import make_tasks, sweep
from innet.lab.simulation.baselines import TcpGroup, TcpRank
from innet.lab.workload import Workload, load_workload, parse_workload
from innet.settings import Settings
from innet.topology import load_topology

STAR = load_topology("star:4").with_overrides(rate_bps=1e9, delay_s=20e-6, jitter_s=20e-6)


def compared(workload: Workload, *algorithms: str) -> Comparison:
    runs = sweep(
        make_tasks(STAR, workload, algorithms=algorithms), processes=1, progress=lambda _: None
    )
    return outcome(STAR, workload.name, Settings(), Machine.here(), runs)


def test_tcp_algorithms_are_listed_with_their_bounds() -> None:
    found = compared(load_workload("allreduce:1MiB"), "inc", "tcp-ring", "tcp-ps:server=h2")
    inc, ring, server = found.measurements
    assert (ring.title, server.title) == ("ring over TCP", "parameter server over TCP (server=h2)")
    assert inc.bound_s is not None
    # Incast costs the server more than its bytes.
    for measured, multiple, most in ((ring, 1.5, 1.3), (server, 3.0, 10.0)):  # 2(N-1)/N, N-1
        assert measured.bound_s == pytest.approx(multiple * inc.bound_s)
        assert 1.0 < (measured.ratio_to_bound or 0.0) < most
        assert measured.correct
        assert len(measured.samples_s) == 3
    assert server.busiest_link is not None
    assert "h2" in (server.busiest_link.source, server.busiest_link.destination)
    told = " ".join(summary_sentences(found))
    assert "as fast as ring over TCP" in told
    assert "Parameter server over TCP (server=h2): every rank sends its tensor to one host" in told


def test_training_runs_over_tcp_algorithms() -> None:
    text = """
name: w
jobs:
  train:
    kind: training
    steps: 1
    bucket: 256KiB
    first_bucket: 64KiB
    layers: [{forward: 1ms, backward: 1ms, gradient: 256KiB}, {backward: 1ms, gradient: 64KiB}]
""".replace("first_bucket", "first-bucket")
    (measured,) = compared(parse_workload(text), "tcp-ring").measurements
    assert measured.correct
    assert measured.bound_s is not None
    assert measured.bound_s < measured.median_s < 2 * measured.bound_s


def test_an_absent_rank_is_named() -> None:
    async def program(rank: TcpRank) -> None:
        if rank.rank != 2:
            await rank.iallreduce(np.ones(4, np.float32))

    with innet.Simulation(STAR) as sim:
        group = TcpGroup("tcp-ring", sim, STAR.hosts, timeout_s=0.5)
        with pytest.raises(DeadlineExceeded, match=r"tcp-ring .*missing: rank 2 \(h2\)"):
            sim.run(*map(program, group.ranks))
        assert sim.now_s == pytest.approx(0.5)


def test_a_dead_link_ends_an_operation_at_its_deadline() -> None:
    text = """
name: w
jobs: {sums: {kind: collective, operation: allreduce, size: 64KiB, timeout: 300ms}}
events: [{kind: link-down, link: h1 -- s0, at: 0}]
"""
    found = compared(parse_workload(text), "tcp-ps")
    (failure,) = found.failures
    assert "a path between the hosts" in failure.reason
    assert failure.reason.startswith("seed 1, at 0.3")


@pytest.mark.parametrize(
    ("workload", "algorithm", "message"),
    [
        ("alltoall:4KiB", "tcp-ring", "only does allreduce, and there is alltoall"),
        ("allreduce:4KiB", "tcp-rng", "did you mean 'tcp-ring'"),
        ("allreduce:4KiB", "tcp-ring:server=h1", "no option 'server'; it has congestion"),
        ("allreduce:4KiB,hosts=h0", "tcp-ring", "expected|at least two"),
        ("allreduce:4KiB", "tcp-ps:server=s0", "s0"),
        ("allreduce:4KiB", "tcp-ring:congestion=bbr", "'bbr'; known are cubic and reno"),
    ],
)
def test_impossible_requests_are_refused(workload: str, algorithm: str, message: str) -> None:
    with pytest.raises(InnetError, match=message):
        compared(load_workload(workload), algorithm)
