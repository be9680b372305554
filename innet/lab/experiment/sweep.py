"""Runs many tasks in several processes, and reports their progress."""

from __future__ import annotations

import multiprocessing
import os
import queue
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

from innet.cluster.emulation.syscalls import set_parent_death_signal
from innet.errors import KVError, SimulationError, WorkloadError
from innet.lab.compare.methods import require_simulated
from innet.lab.experiment.run import (
    Interrupted,
    Moment,
    PacketTrace,
    Payloads,
    RunResult,
    Task,
    run_task,
)
from innet.lab.replay.plan import Design
from innet.lab.workload import Workload
from innet.node.node_config import Mode
from innet.observe.web.document import SUFFIX as RECORDING_SUFFIX
from innet.settings import Settings
from innet.topology import Topology
from innet.topology.link_choice import links_at

SUFFIX = ".pcapng"


def file_paths(into: Path, names: Sequence[str], suffix: str, what: str) -> list[Path]:
    """The file of each run: the file ``into`` for a single run, or files in the directory ``into``.

    Args:
        suffix: of a file; every other name is a directory's, unless a FIFO or a device is there.
        what: is written, for messages.

    Raises:
        SimulationError: there are several runs for one file, or the directory cannot be made.
    """
    is_stream = into.exists() and not into.is_dir() and not into.is_file()
    is_file = into.suffix == suffix or is_stream
    if is_file and len(names) > 1:
        raise SimulationError(
            f"{into} can have {what} of one run, and there are {len(names)}; give a directory "
            "for a file of each, or one algorithm, size and seed"
        )
    try:
        (into.parent if is_file else into).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SimulationError(
            f"{what} cannot be written to {into}: {error.strerror}; give another directory"
        ) from None
    return [into] if is_file else [into / f"{name}{suffix}" for name in names]


_LOOK_PERIOD_S: Final = 0.1


@dataclass(frozen=True)
class RunOptions:
    """Options of all runs of a sweep; see :class:`~innet.lab.experiment.run.Task`."""

    settings: Settings = field(default_factory=Settings)
    like: Mode = "local"
    payloads: Payloads = "auto"


@dataclass
class Standing:
    """The progress of a sweep.

    Attributes:
        runs: of the whole sweep.
        ended: completed runs.
        moments: progress of each run in progress, by its number.
    """

    runs: int
    ended: int = 0
    moments: dict[int, Moment] = field(default_factory=dict)

    @property
    def fraction(self) -> float:
        """The completed fraction; all runs have the same weight."""
        under_way = [m.operations / max(1, m.of_operations) for m in self.moments.values()]
        return min(1.0, (self.ended + sum(under_way)) / max(1, self.runs))


def make_tasks(
    topology: Topology,
    workload: Workload,
    *,
    algorithms: Sequence[str],
    sizes_bytes: Sequence[int] = (),
    seeds: Sequence[int] = (1,),
    options: RunOptions | None = None,
) -> list[Task]:
    """A run for each size, algorithm and seed, in this order.

    When all jobs name their algorithm, only the first of ``algorithms`` is used.

    Args:
        topology: the network.
        workload: the jobs.
        algorithms: of jobs that name none; designs for a replay.
        sizes_bytes: of its only job, in place of the workload's.
        seeds: of each.
        options: of all runs.

    Raises:
        WorkloadError: the workload cannot have these sizes, or a replay these designs.
        PlanError: an algorithm is unknown.
    """
    if workload.is_replay:
        _require_designs(algorithms)
    else:
        for algorithm in algorithms:
            require_simulated(algorithm)
    if all(job.written.algorithm for job in workload.jobs):
        algorithms = algorithms[:1]
    chosen = options or RunOptions()
    workloads = [workload.with_size(size) for size in sizes_bytes] or [workload]
    return [
        Task(topology, sized, algorithm, seed, chosen.settings, chosen.like, chosen.payloads)
        for sized in workloads
        for algorithm in algorithms
        for seed in seeds
    ]


def with_packet_traces(
    tasks: Sequence[Task],
    into: Path,
    *,
    at: Sequence[str] = (),
    sizes_bytes: Sequence[int] = (),
) -> list[Task]:
    """The same runs with packet traces, in files named after the runs.

    Args:
        tasks: of one topology.
        into: a file for the only run, or a directory with a file for each run.
        at: nodes and links at which packets are captured; by default all.
        sizes_bytes: the same as for :func:`make_tasks`.

    Raises:
        SimulationError: packets cannot be captured there, or not written.
    """
    links = links_at(tasks[0].topology, at) if at else None
    paths = file_paths(into, _names(tasks, sizes_bytes), SUFFIX, "packet traces")
    return [
        replace(task, trace=PacketTrace(path, links))
        for task, path in zip(tasks, paths, strict=True)
    ]


def with_recordings(
    tasks: Sequence[Task], into: Path, sizes_bytes: Sequence[int] = ()
) -> list[Task]:
    """The tasks with recordings for the live view; arguments as for packet traces."""
    paths = file_paths(into, _names(tasks, sizes_bytes), RECORDING_SUFFIX, "recordings")
    return [replace(task, recording=path) for task, path in zip(tasks, paths, strict=True)]


def _names(tasks: Sequence[Task], sizes_bytes: Sequence[int]) -> list[str]:
    """Names of the files of the runs."""
    per_size = len(tasks) // max(1, len(sizes_bytes))
    return [
        "-".join(
            (
                re.sub(r"[^A-Za-z0-9.]+", "-", task.algorithm),
                *([str(sizes_bytes[number // per_size])] if sizes_bytes else []),
                f"seed{task.seed}",
            )
        )
        for number, task in enumerate(tasks)
    ]


def _require_designs(algorithms: Sequence[str]) -> None:
    try:
        for algorithm in algorithms:
            Design.parse(algorithm)
    except KVError as error:
        raise WorkloadError(str(error)) from None


def sweep(
    tasks: Sequence[Task], *, processes: int, progress: Callable[[Standing], None]
) -> list[tuple[Task, RunResult]]:
    """Do all runs; Ctrl-C ends them early, with their results so far.

    Args:
        tasks: the runs.
        processes: runs at once; a single run, or a single process, runs in this process.
        progress: takes the progress.

    Raises:
        KeyboardInterrupt: Ctrl-C before any run had a result.
    """
    standing = Standing(len(tasks))
    runs: list[tuple[Task, RunResult]] = []
    if min(processes, len(tasks)) <= 1:
        ended = _one_by_one(tasks, standing, progress)
    else:
        ended = _in_processes(tasks, processes, standing, progress)
    try:
        for run in ended:
            runs.append(run)  # those before an exception stay
    except KeyboardInterrupt:
        if not runs:
            raise
        task, last = runs[-1]
        runs[-1] = task, replace(last, interrupted=True)
    return runs


def _one_by_one(
    tasks: Iterable[Task], standing: Standing, progress: Callable[[Standing], None]
) -> Iterator[tuple[Task, RunResult]]:
    for task in tasks:

        def observe(moment: Moment) -> None:
            standing.moments = {0: moment}
            progress(standing)

        result = run_task(task, observe)
        standing.ended += 1
        standing.moments.clear()
        yield task, result
        if result.interrupted:
            return
        progress(standing)


def _in_processes(
    tasks: Sequence[Task], processes: int, standing: Standing, progress: Callable[[Standing], None]
) -> Iterator[tuple[Task, RunResult]]:
    context = multiprocessing.get_context("spawn")
    moments: Queue[tuple[int, Moment]] = context.Queue()
    stop = context.Event()
    interrupted = False
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(
        min(processes, len(tasks)), context, _begin_process, (moments, stop)
    ) as pool:
        futures: list[Future[RunResult]] = []
        try:
            with _interrupts_blocked():  # processes inherit it
                futures += [pool.submit(_run_in_process, n, task) for n, task in enumerate(tasks)]
            _wait(futures, moments, standing, progress)
        except BaseException as error:
            stop.set()
            if not (standing.ended or standing.moments):  # no process has a result to wait for
                _kill(set(multiprocessing.active_children()) - others)
            pool.shutdown(wait=True, cancel_futures=True)
            if not isinstance(error, KeyboardInterrupt):  # after Ctrl-C, return the results so far
                raise
            interrupted = True
    for task, future in zip(tasks, futures, strict=False):
        if future.cancelled() or (interrupted and future.exception() is not None):
            continue
        yield task, future.result()
    if interrupted:
        raise KeyboardInterrupt


def _kill(processes: Iterable[BaseProcess]) -> None:
    for process in processes:
        process.kill()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Hold Ctrl-C back until the end of the context.

    A terminal sends it to all processes of a command. The parent alone decides when to stop, so the
    processes of a sweep must never receive it, not even while they start.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait(
    futures: Sequence[Future[RunResult]],
    moments: Queue[tuple[int, Moment]],
    standing: Standing,
    progress: Callable[[Standing], None],
) -> None:
    while True:
        done = [future for future in futures if future.done()]
        for future in done:
            _raise_failure(future)
        standing.ended = len(done)
        for number, future in enumerate(futures):
            if future.done():
                standing.moments.pop(number, None)
        progress(standing)
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
    set_parent_death_signal(signal.SIGKILL)
    os.nice(1)


def _run_in_process(number: int, task: Task) -> RunResult:
    def observe(moment: Moment) -> None:
        _moments.put((number, moment))
        if _stop.is_set():
            raise Interrupted

    return run_task(task, observe)
