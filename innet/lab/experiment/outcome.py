"""Combines many runs into one comparison, with the JSON, table and page of ``innet compare``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

from innet import __version__
from innet.errors import PlanError
from innet.lab.compare.measurement import (
    BlockPlaces,
    Comparison,
    Failure,
    LinkTraffic,
    Machine,
    Measurement,
    QueueSeries,
    SimulatedRun,
)
from innet.lab.compare.methods import TCP_TITLES, find_method
from innet.lab.compare.sweep import describe_links
from innet.lab.experiment.run import JobResult, RunResult, Task
from innet.lab.replay.plan import DESIGNS
from innet.node.node_config import Mode
from innet.settings import Settings
from innet.topology import Topology

_ALL_JOBS = "all jobs"

Finished = tuple[Task, RunResult]


def outcome(
    topology: Topology,
    workload: str,
    settings: Settings,
    machine: Machine,
    runs: list[Finished],
    mode: Mode | Literal["sim"] = "sim",
) -> Comparison:
    """The comparison of all runs; runs that differ only in their seed make one measurement.

    With several jobs in a workload, each job has a measurement. One more measurement, of all jobs,
    has the links and queues that they share, and the time until the last job ends.

    Args:
        topology: the network.
        workload: its name.
        settings: of the nodes.
        machine: of the simulator.
        runs: in the order in which methods appear.
        mode: ``sim``, or that of the emulated network.
    """
    kinds: dict[tuple[str, str], list[RunResult]] = defaultdict(list)
    for task, result in runs:
        kinds[task.algorithm, _sizes(result)].append(result)
    measurements: list[Measurement] = []
    failures: list[Failure] = []
    for (algorithm, _), results in kinds.items():
        several = len(results[0].jobs) > 1
        for number in range(len(results[0].jobs)):
            jobs = [result.jobs[number] for result in results]
            beside = _beside(jobs[0], results[0], algorithm)
            measurements += _of_job(jobs, results, several, beside)
            failures += _failures(jobs, results, several, beside)
        if several:
            measurements += _of_all_jobs(results)
    if mode != "sim":
        measurements = [row.model_copy(update={"simulated": None}) for row in measurements]
    operations = {job.operation for _, result in runs for job in result.jobs}
    return Comparison(
        topology=topology.name,
        hosts=len(topology.hosts),
        switches=len(topology.separate_switches),
        links=describe_links(topology),
        mode=mode,
        operation=operations.pop() if len(operations) == 1 else "operation",
        workload=workload,
        interrupted=any(result.interrupted for _, result in runs),
        signature=settings.security.signature,
        machine=machine,
        versions={"innet": f"innet {__version__}{' (simulated)' if mode == 'sim' else ''}"},
        measurements=measurements,
        failures=failures,
    )


def _sizes(result: RunResult) -> str:
    return ",".join(str(job.size_bytes) for job in result.jobs)


def _of_job(
    jobs: Sequence[JobResult], results: Sequence[RunResult], several: bool, beside: str
) -> list[Measurement]:
    samples_s = [ended - begun for job in jobs for begun, ended in job.spans_s]
    if not samples_s:
        return []
    blocks = [job.blocks for job in jobs if job.blocks is not None]
    return [
        Measurement(
            method=_label(jobs[0], several) + beside,
            title=_title(jobs[0], several) + beside,
            size_bytes=jobs[0].size_bytes,
            samples_s=samples_s,
            in_a_row=False,
            correct=all(job.correct for job in jobs),
            bound_s=jobs[0].bound_s,
            completion_bound_s=jobs[0].completion_bound_s,
            links=[] if several else _traffic(results, sum(r.operations for r in results)),
            deepest_queue=None if several else _deepest(results),
            retransmissions=0 if several else sum(r.retransmissions for r in results),
            cpu_s=0.0,
            job=jobs[0].job if several else "",
            simulated=_simulated(results, jobs[0].spans_s),
            blocks=BlockPlaces.total(blocks) if blocks else None,
        )
    ]


def _of_all_jobs(results: Sequence[RunResult]) -> list[Measurement]:
    spans_s = [[span for job in result.jobs for span in job.spans_s] for result in results]
    samples_s = [max(ended for _, ended in spans) for spans in spans_s if spans]
    if not samples_s:
        return []
    algorithms = "+".join(dict.fromkeys(job.algorithm for job in results[0].jobs))
    return [
        Measurement(
            method=f"{_ALL_JOBS}: {algorithms}",
            title=f"{_ALL_JOBS}: {_algorithm_title(algorithms)}",
            size_bytes=sum(job.size_bytes for job in results[0].jobs),
            samples_s=samples_s,
            in_a_row=False,
            correct=all(job.correct for result in results for job in result.jobs),
            bound_s=None,
            links=_traffic(results, len(results)),
            deepest_queue=_deepest(results),
            retransmissions=sum(r.retransmissions for r in results),
            cpu_s=0.0,
            job=_ALL_JOBS,
            simulated=_simulated(results, [(0.0, samples_s[0])]),
        )
    ]


def _failures(
    jobs: Sequence[JobResult], results: Sequence[RunResult], several: bool, beside: str
) -> Iterable[Failure]:
    for job, result in zip(jobs, results, strict=True):
        if job.failure is not None:
            yield Failure(
                method=_label(job, several) + beside,
                size_bytes=job.size_bytes,
                reason=f"seed {result.seed}, {job.failure}",
            )


def _beside(job: JobResult, result: RunResult, algorithm: str) -> str:
    """A suffix for a job that names its algorithm, in runs that compare other jobs' algorithms."""
    others = {other.algorithm for other in result.jobs}
    return "" if job.algorithm == algorithm or algorithm not in others else f" beside {algorithm}"


def _label(job: JobResult, several: bool) -> str:
    return f"{job.job}: {job.algorithm}" if several else job.algorithm


def _title(job: JobResult, several: bool) -> str:
    title = _algorithm_title(job.algorithm)
    return f"{job.job}: {title}" if several else title


def _algorithm_title(algorithm: str) -> str:
    name, _, options = algorithm.partition(":")
    try:
        title = TCP_TITLES.get(name) or DESIGNS.get(name) or find_method(name).title
    except PlanError:
        return algorithm
    return f"{title} ({options})" if options else title


def _traffic(results: Sequence[RunResult], operations: int) -> list[LinkTraffic]:
    """The traffic of the links per operation, over all runs."""
    return [
        LinkTraffic(
            source=links[0].source,
            destination=links[0].destination,
            rate_bps=links[0].rate_bps,
            bytes_per_operation=sum(link.bytes_per_operation for link in links)
            / max(operations, 1),
            drops=sum(link.drops for link in links),
        )
        for links in zip(*(result.links for result in results), strict=True)
    ]


def _deepest(results: Sequence[RunResult]) -> QueueSeries | None:
    queues = [result.queue for result in results if result.queue is not None]
    return max(queues, key=lambda queue: max(queue.depth_bytes), default=None)


def _simulated(results: Sequence[RunResult], spans_s: list[tuple[float, float]]) -> SimulatedRun:
    return SimulatedRun(
        seeds=[result.seed for result in results],
        spans_s=spans_s,
        slots_in_use_max=max(result.slots_in_use_max for result in results),
        events=results[0].events,
        virtual_s=sum(result.virtual_s for result in results),
        wall_s=sum(result.wall_s for result in results),
        packets=sum(result.packets for result in results),
        virtual_scale=max(result.virtual_scale for result in results),
        background_bytes=sum(result.background_bytes for result in results),
    )
