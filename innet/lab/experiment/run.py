"""Runs a workload once in the simulator.

:class:`Task`, :class:`Moment` and :class:`RunResult` are plain values that cross process borders. A
replay over an emulated network (:mod:`~innet.lab.experiment.emulated_replay`) has the same ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from innet.errors import InnetError, SimulationError, WorkloadError
from innet.lab.compare.measurement import (
    BlockPlaces,
    LinkTraffic,
    QueueSeries,
    SimulatedEvent,
)
from innet.lab.compare.sampling import QueueWatch, TrafficTotal, retransmissions
from innet.lab.experiment.recording import SimulationRecorder
from innet.lab.replay.plan import Design, with_switch_memory
from innet.lab.simulation.event_schedule import EventSchedule, Processors
from innet.lab.simulation.network import largest_virtual_scale
from innet.lab.simulation.programs.kv import KvProgram, design_of
from innet.lab.simulation.programs.program import CollectiveProgram, Program, ProgramContext
from innet.lab.simulation.programs.training import AstraSimProgram, TrainingProgram
from innet.lab.simulation.simulation import Simulation
from innet.lab.simulation.streams import BackgroundTraffic
from innet.lab.workload.document import ANY_HOST, BackgroundSpecification
from innet.lab.workload.model import AstraSimJob, CollectiveJob, Job, KvJob, Workload
from innet.node.node_config import Mode
from innet.settings import Settings
from innet.topology import Topology
from innet.topology.link_choice import DirectedLinks

Payloads = Literal["auto", "real", "virtual"]
"""``auto``: real while the arrays of all hosts take little memory."""


@dataclass(frozen=True)
class PacketTrace:
    """A packet trace of one run.

    Attributes:
        path: of the file.
        links: the captured links; ``None``: all.
    """

    path: Path
    links: DirectedLinks | None = None


@dataclass(frozen=True)
class Task:
    """One run of a workload on a topology.

    Attributes:
        topology: the network.
        workload: the jobs.
        algorithm: of jobs that name none.
        seed: of all random numbers.
        settings: of the nodes.
        like: the mode whose links the simulation models.
        payloads: whether arrays are in memory.
        trace: the packets to capture.
        recording: the file for a recording for the live view.
    """

    topology: Topology
    workload: Workload
    algorithm: str
    seed: int
    settings: Settings
    like: Mode = "local"
    payloads: Payloads = "auto"
    trace: PacketTrace | None = None
    recording: Path | None = None

    def __str__(self) -> str:
        return f"{self.algorithm} {self.workload.name} seed {self.seed}"


@dataclass(frozen=True)
class Moment:
    """The progress of a run.

    Attributes:
        virtual_s: time since the simulation began.
        packets: delivered so far.
        operations: completed by all ranks.
        of_operations: operations of the whole run.
    """

    virtual_s: float
    packets: int
    operations: int
    of_operations: int


Observer = Callable[[Moment], None]
"""Takes the progress; raises :class:`Interrupted` to end the run with its results so far."""


class Interrupted(Exception):
    """The user ends the run."""


@dataclass(frozen=True)
class JobResult:
    """The operations of one job.

    Attributes:
        job: its name.
        algorithm: of its groups.
        operation: in words.
        size_bytes: of each rank's tensor.
        bound_s: least time of an operation, if known.
        spans_s: beginning and end of each timed operation, in virtual time.
        correct: whether every result was right.
        failure: why it ended early, if it did.
        completion_bound_s: bound with latency, of operations much longer than ``bound_s``.
        blocks: where blocks were found, in a replay of requests.
    """

    job: str
    algorithm: str
    operation: str
    size_bytes: int
    bound_s: float | None
    spans_s: list[tuple[float, float]]
    correct: bool
    failure: str | None
    completion_bound_s: float | None = None
    blocks: BlockPlaces | None = None


@dataclass(frozen=True)
class RunResult:
    """The result of one run.

    Attributes:
        seed: of all random numbers.
        jobs: in the workload's order.
        links: bytes and drops of each direction, over the whole run.
        queue: the deepest one during the first timed operation.
        operations: of all jobs, including untimed ones.
        retransmissions: of Interests and TCP segments.
        slots_in_use_max: the most at once on one switch.
        virtual_s: duration in virtual time.
        wall_s: duration in real time.
        packets: delivered.
        interrupted: whether the user ended it, or the runs behind it.
        virtual_scale: bytes for which each byte of an array stood.
        background_bytes: offered by background traffic.
        events: that the simulation applied.
    """

    seed: int
    jobs: list[JobResult]
    links: list[LinkTraffic]
    queue: QueueSeries | None
    operations: int
    retransmissions: int
    slots_in_use_max: int
    virtual_s: float
    wall_s: float
    packets: int
    interrupted: bool
    virtual_scale: int = 1
    background_bytes: int = 0
    events: list[SimulatedEvent] = field(default_factory=list)


_MOST_REAL_BYTES: Final = 1 << 30
_WANTED_BYTES: Final = 1 << 25
_LEAST_SCALE: Final = 16
_ONE_FROM_EACH: Final = ("allgather", "gather")


def virtual_scale(payloads: Payloads, topology: Topology, workload: Workload) -> int:
    """Bytes for which each byte of an array stands; 1: real payloads.

    A power of two, so that usual sizes remain whole.
    """
    held_bytes = sum(_held_bytes(job, topology) for job in workload.jobs)
    if payloads == "real" or (payloads == "auto" and held_bytes <= _MOST_REAL_BYTES):
        return 1
    scale = _LEAST_SCALE
    while held_bytes // scale > _WANTED_BYTES:
        scale *= 2
    while scale > largest_virtual_scale(topology):
        scale //= 2
    return max(1, scale)


def _held_bytes(job: Job, topology: Topology) -> int:
    """Approximate memory of the arrays of all ranks."""
    ranks = len(topology.ranks_on(job.written.hosts or topology.hosts))
    if isinstance(job, CollectiveJob):
        results = ranks if job.written.operation in _ONE_FROM_EACH else 1
        return ranks * job.written.size * (1 + results)
    if isinstance(job, AstraSimJob):
        phases = (
            phase.size_bytes
            for layer in job.model.layers
            for phase in (layer.forward, layer.input_gradient, layer.weight_gradient)
        )
        return ranks * sum(phases)
    if isinstance(job, KvJob):
        blocks = {block for request in job.requests for block in request.blocks}
        return job.written.replicas * job.written.block * len(blocks)
    return ranks * sum(layer.gradient_bytes for layer in job.layers)


def make_program(job: Job, place: ProgramContext) -> Program:
    """The program of ``job``, with its groups."""
    if isinstance(job, CollectiveJob):
        return CollectiveProgram(job, place)
    if isinstance(job, AstraSimJob):
        return AstraSimProgram(job, place)
    if isinstance(job, KvJob):
        return KvProgram(job, place)
    return TrainingProgram(job, place)


def fitted_topology(topology: Topology, workload: Workload, algorithm: str) -> Topology:
    """The topology with the memory that a replay has on switches."""
    replays = [job for job in workload.jobs if isinstance(job, KvJob)]
    if len(replays) > 1:
        raise WorkloadError(
            f"{workload.name} has several kv jobs: {', '.join(job.name for job in replays)}; "
            "a switch has one content store. Put their requests into one trace"
        )
    for job in replays:
        topology = with_switch_memory(
            topology, job.written, Design.parse(design_of(job, algorithm)).name
        )
    return topology


_TELL_PERIOD_S = 0.1
_FIRST_QUEUE_PERIOD_S = 20e-6


def run_task(task: Task, observer: Observer = lambda _moment: None) -> RunResult:
    """Run a workload to its end, or until ``observer`` or Ctrl-C ends it.

    A job that fails does not end the others; its result says why.
    """
    with Simulation(
        fitted_topology(task.topology, task.workload, task.algorithm),
        settings=task.settings,
        seed=task.seed,
        like=task.like,
        virtual_scale=virtual_scale(task.payloads, task.topology, task.workload),
    ) as sim:
        if task.trace is not None:
            sim.capture(task.trace.path, task.trace.links)
        return _Run(task, sim, observer).result()


class _Run:
    def __init__(self, task: Task, sim: Simulation, observer: Observer) -> None:
        self._task = task
        self._sim = sim
        self._observer = observer
        self._processors = Processors(lambda: sim.now_s)
        place = ProgramContext(sim, self._processors, task.algorithm, task.seed)
        self._programs = [make_program(job, place) for job in task.workload.jobs]
        events = (*task.topology.events, *task.workload.events)
        self._schedule = EventSchedule(events, sim, self._processors, task.seed)
        self._background = [
            _begin(sim, number, written) for number, written in enumerate(task.workload.background)
        ]
        self._watch = QueueWatch(sim.network, _FIRST_QUEUE_PERIOD_S)
        self._recorder = (
            None
            if task.recording is None
            else SimulationRecorder(sim, self._schedule, task.recording.stem)
        )
        self._failures: dict[str, str] = {}
        self._told_at_s = 0.0

    def result(self) -> RunResult:
        """Run the programs and collect their results."""
        began_s = time.monotonic()
        interrupted = False
        self._sim.observer = self._tell
        try:
            self._sim.run(self._all_jobs())
        except (Interrupted, KeyboardInterrupt):
            interrupted = True
        finally:
            self._sim.observer = None
        if self._recorder is not None and self._task.recording is not None:
            self._recorder.recording().write(self._task.recording)
        network = self._sim.network
        status = network.status()
        return RunResult(
            seed=self._task.seed,
            jobs=[self._job_result(program) for program in self._programs],
            links=self._traffic(),
            queue=self._deepest_queue(),
            operations=self._completed(),
            retransmissions=retransmissions(status) + self._sim.tcp_retransmissions(),
            slots_in_use_max=max(
                (node["reducer"]["slots_in_use_max"] for node in status.values()), default=0
            ),
            events=self._schedule.applied,
            virtual_s=self._sim.now_s,
            wall_s=time.monotonic() - began_s,
            packets=self._sim.counters()["packets"],
            interrupted=interrupted,
            virtual_scale=self._sim.virtual_scale,
            background_bytes=sum(traffic.offered_bytes for traffic in self._background),
        )

    async def _all_jobs(self) -> None:
        self._schedule.start()
        async with self._watch, self._recorder or contextlib.nullcontext():
            await asyncio.gather(*(self._job(program) for program in self._programs))

    async def _job(self, program: Program) -> None:
        try:
            await program.run()
        except InnetError as error:
            self._failures[program.name] = f"at {self._sim.now_s:.6f} s: {error}"

    def _tell(self) -> None:
        if time.monotonic() - self._told_at_s < _TELL_PERIOD_S:
            return
        self._told_at_s = time.monotonic()
        packets = self._sim.counters()["packets"]
        of_operations = sum(program.operations for program in self._programs)
        self._observer(Moment(self._sim.now_s, packets, self._completed(), of_operations))

    def _completed(self) -> int:
        return sum(program.record.completed for program in self._programs)

    def _job_result(self, program: Program) -> JobResult:
        return JobResult(
            job=program.name,
            algorithm=program.algorithm,
            operation=program.operation,
            size_bytes=program.size_bytes,
            bound_s=program.bound_s,
            completion_bound_s=program.completion_bound_s(),
            spans_s=program.record.spans_s,
            correct=program.record.correct,
            failure=self._failures.get(program.name),
            blocks=program.blocks,
        )

    def _deepest_queue(self) -> QueueSeries | None:
        spans_s = self._programs[0].record.spans_s
        return self._watch.deepest(*spans_s[0]) if spans_s else None

    def _traffic(self) -> list[LinkTraffic]:
        network = self._sim.network
        total = TrafficTotal()
        for link, counters in network.link_counters().items():
            total.count(link, counters["sent_bytes"], counters["dropped_queue"])
        return total.per_operation(network.topology, 1)


def _begin(sim: Simulation, number: int, written: BackgroundSpecification) -> BackgroundTraffic:
    sources, destinations = (
        sim.topology.hosts if ends == (ANY_HOST,) else ends for ends in (written.source, written.to)
    )
    try:
        return sim.background(
            sources,
            destinations,
            rate_bps=written.rate,
            flow_bytes=written.size,
            distribution=written.distribution,
            congestion=written.congestion,
            at_s=written.at,
            until_s=math.inf if written.until is None else written.until,
        )
    except SimulationError as error:
        raise WorkloadError(f"background.{number}: {error}") from None
