"""Many runs: the same alone and in processes, and one comparison of all of them."""

from __future__ import annotations

import multiprocessing

import pytest

from innet.errors import WorkloadError
from innet.lab.compare.measurement import Comparison, Machine
from innet.lab.compare.report import render_report
from innet.lab.experiment.outcome import outcome
from innet.lab.experiment.sweep import Standing, make_tasks, sweep
from innet.lab.workload import load_workload, parse_workload
from innet.settings import Settings
from innet.topology import load_topology

STAR = load_topology("star:3").with_overrides(rate_bps=1e9, loss=0.01)
TWO_JOBS = """
name: two
jobs:
  sums: {kind: collective, operation: allreduce, size: 64KiB, repetitions: 5}
  shuffle: {kind: collective, operation: alltoall, size: 256KiB, repetitions: 2}
"""


def compared(workload: str, processes: int = 1, **choice: object) -> Comparison:
    chosen = parse_workload(workload) if "\n" in workload else load_workload(workload)
    tasks = make_tasks(STAR, chosen, **choice)  # type: ignore[arg-type]
    runs = sweep(tasks, processes=processes, progress=lambda _: None)
    return outcome(STAR, chosen.name, Settings(), Machine.here(), runs)


def test_several_processes_give_the_results_of_one() -> None:
    choice = {"algorithms": ["inc", "ring"], "seeds": [1, 2]}
    alone = compared("allreduce:256KiB", 1, **choice)
    together = compared("allreduce:256KiB", 2, **choice)
    assert [m.samples_s for m in alone.measurements] == [m.samples_s for m in together.measurements]
    assert [len(m.samples_s) for m in alone.measurements] == [6, 6]


def test_sizes_become_measurements_beside_their_bounds() -> None:
    found = compared("allreduce:4", algorithms=["inc"], sizes_bytes=[64 << 10, 256 << 10])
    assert found.sizes_bytes == [64 << 10, 256 << 10]
    for m in found.measurements:
        assert m.bound_s is not None
        assert m.median_s > m.bound_s
        assert max(link.bytes_per_operation for link in m.links) > m.size_bytes
        assert m.simulated is not None
        assert m.simulated.slots_in_use_max > 0


def test_sizes_of_several_jobs_are_refused() -> None:
    with pytest.raises(WorkloadError, match="single collective"):
        compared(TWO_JOBS, algorithms=["inc"], sizes_bytes=[4096])


def test_jobs_have_their_own_measurements_and_share_links() -> None:
    found = compared(TWO_JOBS, algorithms=["inc"])
    assert found.methods == ["sums: inc", "shuffle: inc", "all jobs: inc"]
    assert [len(m.samples_s) for m in found.measurements] == [5, 2, 1]
    assert [bool(m.links) for m in found.measurements] == [False, False, True]


def test_measurements_of_a_job_are_labelled_by_the_algorithm_of_the_others() -> None:
    text = TWO_JOBS.replace("kind: collective, operation: allreduce", "kind: collective, "
                            "algorithm: ps, operation: allreduce")  # fmt: skip
    found = compared(text, algorithms=["inc", "ring"])
    assert [m for m in found.methods if m.startswith("sums")] == [
        "sums: ps beside inc",
        "sums: ps beside ring",
    ]
    assert len(found.methods) == len(found.measurements) == 6


def test_the_page_of_a_simulation_shows_its_seeds_and_events() -> None:
    events = "events:\n  - {kind: pause, node: s0, at: 1ms, for: 2ms}\n"
    page = render_report(compared(TWO_JOBS + events, algorithms=["inc"], seeds=[7]))
    for text in ("two on star-3", "s0: paused", "<dt>seeds</dt><dd>7</dd>", "Over time", "slots"):
        assert text in page


def test_progress_never_exceeds_the_total() -> None:
    standing = Standing(runs=2, ended=2)
    assert standing.fraction == 1.0


@pytest.mark.parametrize("processes", [1, 2])
def test_an_interrupt_after_a_run_keeps_its_result(processes: int) -> None:
    def interrupt(standing: Standing) -> None:
        if standing.ended:
            raise KeyboardInterrupt

    tasks = make_tasks(STAR, load_workload("allreduce:4KiB"), algorithms=["inc"], seeds=[1, 2, 3])
    runs = sweep(tasks, processes=processes, progress=interrupt)
    assert 1 <= len(runs) <= processes + 1  # a second process starts its next run meanwhile
    assert runs[-1][1].interrupted
    assert runs[0][1].jobs[0].spans_s


def test_an_interrupt_before_the_first_run_is_raised_and_leaves_no_process() -> None:
    def interrupt(_: Standing) -> None:
        raise KeyboardInterrupt

    tasks = make_tasks(STAR, load_workload("allreduce:4KiB"), algorithms=["inc"], seeds=[1, 2])
    with pytest.raises(KeyboardInterrupt):
        sweep(tasks, processes=2, progress=interrupt)
    assert multiprocessing.active_children() == []
