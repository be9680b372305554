"""Does many runs, as many at once as there are cores, and tells how far all of them are."""

from __future__ import annotations

import multiprocessing
import os
import queue
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

from innet.cluster.emulation.syscalls import set_parent_death_signal
from innet.errors import KVError, SimulationError, WorkloadError
from innet.kv.designs import Design
from innet.lab.simulation.baselines.algorithms import require_known
from innet.lab.simulation.experiment.packet_traces import (
    PacketTrace,
    trace_paths,
)
from innet.lab.simulation.experiment.payloads import Payloads
from innet.lab.simulation.experiment.result import RunResult
from innet.lab.simulation.experiment.run import run_task
from innet.lab.simulation.experiment.task import Interrupted, Moment, Task
from innet.lab.simulation.workload import Workload
from innet.node.node_config import Mode
from innet.settings import Settings
from innet.topology import Topology
from innet.topology.link_choice import Links, links_at

_LOOK_PERIOD_S: Final = 0.1


@dataclass
class Standing:
    """How far a sweep is.

    Attributes:
        runs: to do.
        ended: runs that are done.
        moments: how far each run that has begun is, by its number.
    """

    runs: int
    ended: int = 0
    moments: dict[int, Moment] = field(default_factory=dict)

    @property
    def fraction(self) -> float:
        """Of all runs, each weighs the same."""
        under_way = [m.operations / max(1, m.of_operations) for m in self.moments.values()]
        return min(1.0, (self.ended + sum(under_way)) / max(1, self.runs))


def make_tasks(
    topology: Topology,
    workload: Workload,
    *,
    algorithms: Sequence[str],
    sizes_bytes: Sequence[int] = (),
    seeds: Sequence[int] = (1,),
    settings: Settings | None = None,
    like: Mode = "local",
    payloads: Payloads = "auto",
    capture: Path | None = None,
    capture_at: Sequence[str] = (),
) -> list[Task]:
    """A run for each size, algorithm and seed, in that order.

    Where all jobs name their algorithm there is nothing to compare, and one is taken.

    Args:
        topology: where.
        workload: what.
        algorithms: of jobs that do not name theirs.
        sizes_bytes: of its collective, in place of the workload's.
        seeds: of each.
        settings: of the nodes.
        like: the mode whose links are modelled.
        payloads: whether arrays are in memory.
        capture: a file for the packets of the only run, or a directory for a file of each run.
        capture_at: the nodes and links whose packets are written down; by default all.

    Raises:
        WorkloadError: sizes are given, and the workload is no single job with a size; or designs
            of a replay are compared by something else.
        PlanError: an algorithm is unknown.
        SimulationError: a link takes no time, or packets cannot be captured there or written down.
    """
    _require_time(topology)
    if workload.is_replay:
        _require_designs(algorithms)
    else:
        for algorithm in algorithms:
            require_known(algorithm)
    if all(job.written.algorithm for job in workload.jobs):
        algorithms = algorithms[:1]
    workloads = [workload.with_size(size) for size in sizes_bytes] or [workload]
    tasks = [
        Task(topology, sized, algorithm, seed, settings or Settings(), like, payloads)
        for sized in workloads
        for algorithm in algorithms
        for seed in seeds
    ]
    links = links_at(topology, capture_at) if capture_at else None
    return tasks if capture is None else _traced(tasks, sizes_bytes, capture, links)


def _traced(
    tasks: Sequence[Task], sizes_bytes: Sequence[int], into: Path, links: Links | None
) -> list[Task]:
    """The tasks with a file for the packets of each, named after what tells it from the others."""
    per_size = len(tasks) // max(1, len(sizes_bytes))
    names = [
        "-".join(
            (
                re.sub(r"[^A-Za-z0-9.]+", "-", task.algorithm),
                *([str(sizes_bytes[number // per_size])] if sizes_bytes else []),
                f"seed{task.seed}",
            )
        )
        for number, task in enumerate(tasks)
    ]
    paths = trace_paths(into, names)
    return [
        replace(task, trace=PacketTrace(path, links))
        for task, path in zip(tasks, paths, strict=True)
    ]


def _require_time(topology: Topology) -> None:
    for link in topology.links:
        if not link.takes_time:
            raise SimulationError(
                f"the link {'--'.join(link.nodes)} has neither a rate nor a delay, so "
                "nothing on it takes time. Give one, such as --rate 10gbit or --delay 1us"
            )


def _require_designs(algorithms: Sequence[str]) -> None:
    try:
        for algorithm in algorithms:
            Design.parse(algorithm)
    except KVError as error:
        raise WorkloadError(f"a replay of requests compares designs: {error}") from None


def sweep(
    tasks: Sequence[Task], *, processes: int, told: Callable[[Standing], None]
) -> list[tuple[Task, RunResult]]:
    """Do all runs; Ctrl-C ends them early, with what each had until then.

    Args:
        tasks: the runs.
        processes: how many at once; one run alone, or one process, is done in this one.
        told: called now and then with how far it is.

    Raises:
        InnetError: a run cannot begin, or a process died.
    """
    standing = Standing(len(tasks))
    if min(processes, len(tasks)) <= 1:
        return list(_one_by_one(tasks, standing, told))
    return _in_processes(tasks, processes, standing, told)


def _one_by_one(
    tasks: Iterable[Task], standing: Standing, told: Callable[[Standing], None]
) -> Iterator[tuple[Task, RunResult]]:
    for task in tasks:

        def observe(moment: Moment) -> None:
            standing.moments = {0: moment}
            told(standing)

        result = run_task(task, observe)
        standing.ended += 1
        standing.moments.clear()
        told(standing)
        yield task, result
        if result.interrupted:
            return


def _in_processes(
    tasks: Sequence[Task], processes: int, standing: Standing, told: Callable[[Standing], None]
) -> list[tuple[Task, RunResult]]:
    context = multiprocessing.get_context("spawn")
    moments: Queue[tuple[int, Moment]] = context.Queue()
    stop = context.Event()
    with ProcessPoolExecutor(
        min(processes, len(tasks)), context, _begin_process, (moments, stop)
    ) as pool:
        futures = [pool.submit(_run_in_process, n, task) for n, task in enumerate(tasks)]
        try:
            _wait(futures, moments, standing, told)
        except BaseException as error:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            if not isinstance(error, KeyboardInterrupt):  # then what each had so far is wanted
                raise
        return [
            (task, future.result())
            for task, future in zip(tasks, futures, strict=True)
            if not future.cancelled()
        ]


def _wait(
    futures: Sequence[Future[RunResult]],
    moments: Queue[tuple[int, Moment]],
    standing: Standing,
    told: Callable[[Standing], None],
) -> None:
    while True:
        done = [future for future in futures if future.done()]
        for future in done:
            _raise_failure(future)
        standing.ended = len(done)
        for number, future in enumerate(futures):
            if future.done():
                standing.moments.pop(number, None)
        told(standing)
        if len(done) == len(futures):
            return
        try:
            number, moment = moments.get(timeout=_LOOK_PERIOD_S)
        except queue.Empty:
            continue
        standing.moments[number] = moment


def _raise_failure(future: Future[RunResult]) -> None:
    try:
        future.result()
    except BrokenProcessPool:
        raise SimulationError(
            "a process of the sweep has died, perhaps for want of memory; try --processes 1"
        ) from None


# In the processes of a sweep.

_moments: Queue[tuple[int, Moment]]
_stop: Event


def _begin_process(moments: Queue[tuple[int, Moment]], stop: Event) -> None:
    global _moments, _stop
    _moments, _stop = moments, stop
    # The parent decides when to stop: a terminal's Ctrl-C reaches all processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_parent_death_signal(signal.SIGKILL)
    os.nice(1)


def _run_in_process(number: int, task: Task) -> RunResult:
    def observe(moment: Moment) -> None:
        _moments.put((number, moment))
        if _stop.is_set():
            raise Interrupted

    return run_task(task, observe)
