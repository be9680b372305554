"""Jobs at work: right results, times near what the links and the computing allow."""

from __future__ import annotations

import pytest

from innet.errors import WorkloadError
from innet.lab.experiment.run import Interrupted, JobResult, Moment, RunResult, Task, run_task
from innet.lab.simulation.programs import program
from innet.lab.simulation.programs.training import Bucket, make_buckets
from innet.lab.workload import load_workload, parse_workload
from innet.lab.workload.document import COLLECTIVES
from innet.lab.workload.layer_files import Layer
from innet.settings import Settings
from innet.topology import load_topology

STAR = load_topology("star:4").with_overrides(rate_bps=1e9)


def run(text: str, algorithm: str = "inc", seed: int = 1) -> RunResult:
    workload = parse_workload(text) if "\n" in text else load_workload(text)
    return run_task(Task(STAR, workload, algorithm, seed, Settings()))


def times_s(job: JobResult) -> list[float]:
    return [ended - begun for begun, ended in job.spans_s]


@pytest.mark.parametrize("algorithm", ["inc", "ring", "ps", "halving-doubling", "auto"])
@pytest.mark.parametrize("operation", COLLECTIVES)
def test_every_collective_is_right_with_every_algorithm(operation: str, algorithm: str) -> None:
    (job,) = run(f"{operation}:40004,repetitions=2,root=1", algorithm).jobs
    assert job.failure is None
    assert job.correct
    assert len(job.spans_s) == 2


@pytest.mark.parametrize("operation", ["allreduce", "reduce-scatter", "allgather", "broadcast",
                                       "gather", "scatter", "alltoall"])  # fmt: skip
def test_every_collective_takes_about_its_bound(operation: str) -> None:
    (job,) = run(f"{operation}:2MiB").jobs
    assert job.bound_s is not None
    for time_s in times_s(job):
        assert job.bound_s < time_s < 1.5 * job.bound_s


def test_wrong_results_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    forms = {"allreduce": program._FORMS["reduce"]}
    monkeypatch.setattr(program, "_FORMS", forms)  # others than the root get nothing
    (job,) = run("allreduce:4096").jobs
    assert job.correct
    form = forms["allreduce"]._replace(call=lambda comm, x, _: comm.iallreduce(x, "max"))
    monkeypatch.setattr(program, "_FORMS", {"allreduce": form})
    (job,) = run("allreduce:4096").jobs
    assert not job.correct


def test_full_buckets_are_closed() -> None:
    layers = [Layer(str(n), 0.0, 0.001 * n, 400) for n in range(1, 6)]
    buckets = make_buckets(layers, first_bytes=100, most_bytes=800)
    assert [bucket.size_bytes for bucket in buckets] == [400, 800, 800]
    assert sum(bucket.backward_s for bucket in buckets) == pytest.approx(0.015)
    assert make_buckets([Layer("a", 0, 0.5, 0)], 4, 4) == [Bucket(0.5, 0)]


TRAINING = """
name: t
jobs:
  train:
    kind: training
    steps: 2
    bucket: 1MiB
    overlap: {overlap}
    layers: [{{forward: 5ms, backward: 20ms, gradient: 4}},
             {{forward: 5ms, backward: 10ms, gradient: 1MiB}}]
    compute: {compute}
"""


def test_sums_overlap_with_backward_unless_disabled() -> None:
    (hidden,) = run(TRAINING.format(overlap="true", compute="{}")).jobs
    (shown,) = run(TRAINING.format(overlap="false", compute="{}")).jobs
    assert times_s(hidden) == pytest.approx([0.040] * 2, rel=0.02)
    assert min(times_s(shown)) > 0.040 + 0.0083
    assert hidden.bound_s == pytest.approx(0.040, rel=0.01)
    assert shown.bound_s == pytest.approx(0.0484, rel=0.01)


def test_one_slow_host_makes_all_steps_slow() -> None:
    (job,) = run(TRAINING.format(overlap="true", compute="{slow: {h2: 2.0}}")).jobs
    assert times_s(job)[-1] == pytest.approx(0.080, rel=0.02)


@pytest.mark.parametrize("distribution", ["uniform", "exponential", "lognormal"])
def test_random_computation_times_differ_between_steps_and_follow_the_seed(
    distribution: str,
) -> None:
    text = TRAINING.format(overlap="true", compute=f"{{distribution: {distribution}}}")
    first, again, other = (times_s(run(text, seed=seed).jobs[0]) for seed in (1, 1, 2))
    assert first == again != other
    assert first[0] != pytest.approx(first[1], rel=1e-6)


def test_jobs_run_concurrently_and_a_failed_one_ends_alone() -> None:
    result = run("""
name: two
jobs:
  fine: {kind: collective, operation: allreduce, size: 64KiB, repetitions: 5}
  late: {kind: collective, operation: allgather, size: 1MiB, timeout: 1ms}
""")
    fine, late = result.jobs
    assert (len(fine.spans_s), fine.failure) == (5, None)
    assert late.spans_s == []
    assert late.failure is not None
    assert "deadline" in late.failure.lower() or "within" in late.failure


def test_an_interrupted_run_reports_its_results_so_far() -> None:
    def observe(moment: Moment) -> None:
        if moment.operations > 3:
            raise Interrupted

    result = run_task(
        Task(STAR, load_workload("allreduce:4MiB,repetitions=100000"), "inc", 1, Settings()),
        observe,
    )
    assert result.interrupted
    assert 3 <= len(result.jobs[0].spans_s) < 100_000
    assert result.virtual_s > 0.1


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ("{kind: collective, operation: barrier, hosts: [h0, h9]}", "'h9' is not a host"),
        ("{kind: collective, operation: barrier, hosts: [h0, h0]}", "h0 is listed twice"),
        ("{kind: collective, operation: reduce, root: 4}", "no rank 4"),
    ],
)
def test_a_job_that_does_not_fit_is_refused(job: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        run(f"name: w\njobs:\n  j: {job}\n")
