"""Events of files happen when they should, where they should, and are taken back."""

from __future__ import annotations

import pytest

from innet.errors import TopologyError, WorkloadError
from innet.lab.experiment.run import RunResult, Task, run_task
from innet.lab.workload import parse_workload
from innet.settings import Settings
from innet.topology import dump_yaml, load_topology, parse_yaml

STAR = load_topology("star:3").with_overrides(rate_bps=1e9)
JOB = "name: w\njobs:\n  sums: {kind: collective, operation: allreduce, size: 1MiB, %s}\n"


def run(events: str, options: str = "repetitions: 10, pause: 5ms", seed: int = 1) -> RunResult:
    workload = parse_workload(JOB % options + "events:\n" + events)
    result = run_task(Task(STAR, workload, "inc", seed, Settings()))
    assert all(job.correct for job in result.jobs)
    return result


def told(result: RunResult) -> list[tuple[float, str]]:
    return [(round(event.time_s, 6), event.text) for event in result.events]


def test_an_event_is_undone_after_its_duration() -> None:
    result = run("  - {kind: link-down, link: h0 -- s0, at: 20ms, for: 30ms}\n")
    assert told(result) == [(0.02, "h0 -- s0: down"), (0.05, "h0 -- s0: up again")]
    assert len(result.jobs[0].spans_s) == 10


@pytest.mark.parametrize(
    "event",
    [
        "{kind: link-change, link: h1 -- s0, at: 5ms, to: {rate: 50mbit}, for: 100ms}",
        "{kind: pause, node: s0, at: 5ms, for: 100ms}",
        "{kind: link-down, link: any link, at: 5ms, for: 100ms}",
    ],
)
def test_operations_take_longer_during_an_event(event: str) -> None:
    (job,) = run(f"  - {event}\n", "repetitions: 10, warm-up: 0, pause: 5ms").jobs
    times_s = [ended - begun for begun, ended in job.spans_s]
    assert max(times_s) > 0.04
    assert times_s[-1] < 0.012


def test_a_crashed_switch_returns() -> None:
    result = run("  - {kind: crash, node: any switch, at: 20ms, for: 50ms}\n")
    assert [text for _, text in told(result)] == ["s0: crashed", "s0: started again"]
    assert len(result.jobs[0].spans_s) == 10


def test_repeated_events_keep_their_period_until_they_end() -> None:
    result = run("  - {kind: clock-jump, node: h1, at: 10ms, every: 20ms, until: 60ms, by: 1s}\n")
    assert [time_s for time_s, _ in told(result)] == pytest.approx([0.01, 0.03, 0.05], abs=1e-6)


def test_random_events_follow_the_seed() -> None:
    event = "  - {kind: pause, node: any node, rate: 100.0, for: 1ms}\n"
    first, again, other = (told(run(event, seed=seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) > 4


def test_overlapping_equal_events_are_merged() -> None:
    result = run(
        "  - {kind: pause, node: s0, at: 10ms, for: 20ms}\n"
        "  - {kind: pause, node: s0, at: 20ms, for: 30ms}\n"
    )
    assert told(result) == [(0.01, "s0: paused"), (0.05, "s0: goes on")]


def test_computation_stops_on_a_paused_host_and_is_slow_on_a_straggler() -> None:
    training = """
name: t
jobs:
  train:
    kind: training
    steps: 1
    warm-up: 0
    layers: [{forward: 10ms, backward: 10ms}]
events:
  - {kind: pause, node: h1, at: 5ms, for: 7ms}
  - {kind: straggle, node: h1, at: 13ms, factor: 3.0}
"""
    result = run_task(Task(STAR, parse_workload(training), "inc", 1, Settings()))
    ((begun_s, ended_s),) = result.jobs[0].spans_s
    # Forward takes 10 ms and 7 ms of pause, backward three times 10 ms.
    assert ended_s - begun_s == pytest.approx(0.047, abs=1e-5)


TOPOLOGY = """
name: t
topology: {generate: {kind: star, hosts: 2}}
events:
  - {kind: crash, node: s0, at: 10ms, for: 5ms}
  - {kind: link-change, link: [h0 -- s0, h1 -- s0], rate: 5.0, to: {loss: 1%, rate: 10mbit}}
  - {kind: straggle, node: any host, every: 1s, until: 1min, factor: 2.5}
"""


def test_events_of_a_topology_file_are_executed_and_written_back() -> None:
    topology = parse_yaml(TOPOLOGY)
    assert parse_yaml(dump_yaml(topology)) == topology
    assert topology.with_overrides(rate_bps=1e9).events == topology.events
    workload = parse_workload(JOB % "repetitions: 20")
    result = run_task(Task(topology.with_overrides(rate_bps=1e9), workload, "inc", 1, Settings()))
    assert "s0: crashed" in [text for _, text in told(result)]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ("{kind: crash, node: s7}", "no node 's7'"),
        ("{kind: link-down, link: h0 -- h1}", "no link h0 -- h1"),
        ("{kind: straggle, node: s0, factor: 2.0}", "s0 is not a host"),
    ],
)
def test_unknown_targets_are_refused_by_name(event: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        run(f"  - {event}\n")
    text = TOPOLOGY[: TOPOLOGY.index("  - ")] + f"  - {event}\n"
    with pytest.raises(TopologyError, match=message) as caught:
        parse_yaml(text)
    assert caught.value.line == 5
