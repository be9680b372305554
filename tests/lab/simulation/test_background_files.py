"""Background traffic in workload files."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest

import innet
from innet.errors import SimulationError, WorkloadError
from innet.lab.experiment.run import RunResult, run_task
from innet.lab.experiment.sweep import make_tasks
from innet.lab.workload import parse_workload
from innet.lab.workload.document import FlowDistribution
from innet.topology import load_topology

STAR = load_topology("star:4").with_overrides(rate_bps=1e9)
HEAD = """
name: w
jobs: {sums: {kind: collective, operation: allreduce, size: 256KiB, repetitions: 3}}
"""


def result(background: str, seed: int = 1) -> RunResult:
    workload = parse_workload(HEAD + background)
    (task,) = make_tasks(STAR, workload, algorithms=["inc"], seeds=[seed])
    return run_task(task)


def test_flows_slow_the_jobs_down_and_follow_the_seed() -> None:
    background = "background: [{from: any host, to: h1, rate: 800mbit, size: 256KiB}]"
    quiet, busy = result(""), result(background)
    assert busy.background_bytes > quiet.background_bytes == 0
    assert busy.virtual_s > 1.2 * quiet.virtual_s
    assert busy.jobs == result(background).jobs != result(background, seed=2).jobs


def test_no_flow_starts_outside_its_interval() -> None:
    times = "{from: h0, to: [h1, h2], rate: 1gbit, size: 4KiB, at: 1ms, until: 2ms}"
    found = result(f"background: [{times}]")
    assert 0 < found.background_bytes < 3 * 1e9 / 8 * 1e-3
    assert result(f"background: [{times.replace('1ms', '90s')}]").background_bytes == 0


@pytest.mark.parametrize("distribution", ["constant", "exponential", "pareto"])
def test_every_distribution_offers_the_given_rate(distribution: FlowDistribution) -> None:
    with innet.Simulation(STAR) as sim:
        traffic = sim.background(
            "h0", ["h1", "h2"], rate_bps=40e6, flow_bytes=1000, distribution=distribution
        )
        sim.run(asyncio.sleep(0.5))
    assert traffic.flows == pytest.approx(2500, rel=0.1)
    # The largest of pareto's flows, which seldom come, carry much of it.
    least = 0.6 if distribution == "pareto" else 0.9
    assert least < traffic.offered_bytes / (0.5 * 40e6 / 8) < 1.7


@pytest.mark.parametrize(
    ("entry", "line", "message"),
    [
        ("{from: h0, rate: 1mbit}", 5, "'to'"),
        ("{from: h0, to: h1, rate: 5}", 5, "rate"),
        ("{from: h0, to: h1, rate: 1mbit, size: 0}", 5, "a size above 0"),
        ("{from: h0, to: h1, rate: 100gbit, size: 1}", None, "more than .* flows a second"),
        ("{from: [], to: h1, rate: 1mbit}", 5, "a host such as h0"),
        ("{from: h0, to: h1, rate: 1mbit, distribution: zipf}", 5, "'pareto'"),
        ("{from: h9, to: h1, rate: 1mbit}", None, "background.0: 'h9' is not a host"),
        ("{from: h1, to: [h1], rate: 1mbit}", None, "background.0: .*itself"),
    ],
)
def test_mistakes_are_reported(entry: str, line: int | None, message: str) -> None:
    def load_and_run() -> None:
        workload = parse_workload(f"{HEAD}background:\n  - {entry}", Path("w.yaml"))
        run_task(make_tasks(STAR, workload, algorithms=["inc"])[0])

    with pytest.raises(WorkloadError, match=message) as caught:
        load_and_run()
    assert caught.value.line == line


def test_invalid_values_are_refused_in_python() -> None:
    with innet.Simulation(STAR) as sim:
        with pytest.raises(SimulationError, match="unknown distribution 'zipf'"):
            sim.background("h0", "h1", rate_bps=1e6, distribution="zipf")  # type: ignore[arg-type]
        with pytest.raises(SimulationError, match="above 0"):
            sim.background("h0", "h1", rate_bps=math.nan)
