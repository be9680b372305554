"""The base class of programs, the record of their operations, and the simplest: a collective."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from innet.errors import WorkloadError
from innet.lab.compare.measurement import BlockPlaces
from innet.lab.compare.methods import (
    NEAR_BOUND,
    allreduce_bound_s,
    allreduce_completion_bound_s,
    endpoint_bound_s,
    is_simulated_tcp,
)
from innet.lab.compare.pattern import Pattern
from innet.lab.simulation.baselines import TcpGroup
from innet.lab.simulation.event_schedule import Processors
from innet.lab.simulation.simulation import Simulation
from innet.lab.workload.model import CollectiveJob, Job
from innet.topology import Topology


@dataclass
class OperationRecord:
    """The operations of a running job.

    Attributes:
        ranks: number of ranks that must end an operation.
        untimed: number of warm-up operations at the beginning.
        correct: whether every result so far was right.
        started_s: virtual time at which the first rank began each operation.
    """

    ranks: int
    untimed: int = 0
    correct: bool = True
    started_s: list[float] = field(default_factory=list)
    _ended_s: list[float] = field(default_factory=list)
    _left: list[int] = field(default_factory=list)

    def begin(self, operation: int, now_s: float) -> None:
        """Record that a rank begins an operation; operations count from 0."""
        if operation == len(self.started_s):
            self.started_s.append(now_s)
            self._ended_s.append(now_s)
            self._left.append(self.ranks)

    def end(self, operation: int, now_s: float, correct: bool = True) -> None:
        """Record that a rank has ended an operation, and whether its result was right."""
        self.correct &= correct
        self._left[operation] -= 1
        self._ended_s[operation] = now_s

    @property
    def completed(self) -> int:
        """Number of operations that all ranks have ended, including untimed ones."""
        return sum(left == 0 for left in self._left)

    @property
    def spans_s(self) -> list[tuple[float, float]]:
        """Beginning and end of each completed timed operation."""
        spans = zip(self.started_s, self._ended_s, self._left, strict=True)
        return [(begun, ended) for begun, ended, left in spans if left == 0][self.untimed :]


_DEADLINE_BOUNDS = 15


@dataclass(frozen=True)
class ProgramContext:
    """Where a program runs.

    Attributes:
        sim: the simulation.
        processors: of its hosts.
        algorithm: of jobs that name none.
        seed: of random numbers in the program.
    """

    sim: Simulation
    processors: Processors
    algorithm: str
    seed: int

    def group(
        self, hosts: Sequence[str], *, algorithm: str, name: str, timeout_s: float
    ) -> Sequence[Any]:
        """The communicator of each rank; over simulated TCP it has ``iallreduce`` alone.

        Raises:
            PlanError: the algorithm is unknown or does not fit.
        """
        if is_simulated_tcp(algorithm):
            return TcpGroup(algorithm, self.sim, hosts, timeout_s).ranks
        return self.sim.group(hosts, algorithm=algorithm, name=name, timeout_s=timeout_s)


class Program(ABC):
    """A running job.

    Attributes:
        name: of the job.
        operation: that it repeats, in words, such as ``training step``.
        size_bytes: of each rank's tensor, or of all tensors in an operation.
        hosts: of its ranks.
        algorithm: of its groups.
        bound_s: least time of an operation; ``None`` when not known.
        operations: their number.
        record: of its operations.
    """

    operation: str
    size_bytes: int
    bound_s: float | None

    def __init__(self, job: Job, place: ProgramContext) -> None:
        """
        Raises:
            WorkloadError: a host of the job does not exist.
        """
        self.name = job.name
        self.hosts = job_hosts(job, place.sim.topology)
        self.algorithm = job.written.algorithm or place.algorithm
        self.operations = job.written.warm_up + job.written.repetitions
        self.record = OperationRecord(len(self.hosts), job.written.warm_up)
        self.place = place
        self._start_s = job.written.start
        self._timeout_s: float | None = job.written.timeout

    async def run(self) -> None:
        """Run all ranks from start to end.

        Raises:
            InnetError: of the first rank that failed.
        """
        await asyncio.sleep(self._start_s)
        try:
            async with asyncio.TaskGroup() as tasks:
                for rank in range(len(self.hosts)):
                    tasks.create_task(self.rank(rank))
        except ExceptionGroup as group:
            raise group.exceptions[0] from None

    def require_only_allreduce(self, operations: Collection[str]) -> None:
        """Check that the algorithm has the job's operations.

        Raises:
            WorkloadError: it is over simulated TCP, and the job needs more than ``allreduce``.
        """
        others = sorted(set(operations) - {"allreduce"})
        if others and is_simulated_tcp(self.algorithm):
            raise WorkloadError(
                f"job {self.name}: {self.algorithm} only does allreduce, and there is "
                f"{', '.join(others)}; leave it out of --algorithm"
            )

    @abstractmethod
    async def rank(self, rank: int) -> None:
        """Run one rank."""

    @property
    def blocks(self) -> BlockPlaces | None:
        """The places where blocks were found so far; only in a replay of requests."""
        return None

    def completion_bound_s(self) -> float | None:
        """The bound with latency, if known; only of operations much longer than ``bound_s``."""
        return None

    @property
    def timeout_s(self) -> float:
        """Deadline of an operation, far above the time of any that makes progress."""
        if self._timeout_s is not None:
            return self._timeout_s
        usual_s = self.place.sim.settings.collectives.usual_timeout_s
        return usual_s + _DEADLINE_BOUNDS * (self.bound_s or 0.0)


def job_hosts(job: Job, topology: Topology) -> tuple[str, ...]:
    """The hosts of the job's ranks.

    Raises:
        WorkloadError: a host does not exist, or is listed twice.
    """
    hosts = topology.ranks_on(job.written.hosts or topology.hosts)
    for host in hosts:
        if host not in topology.hosts:
            raise WorkloadError(
                f"job {job.name}: {host!r} is not a host of {topology.name}; "
                f"its hosts: {', '.join(topology.hosts)}"
            )
        if hosts.count(host) > 1:
            raise WorkloadError(f"job {job.name}: {host} is listed twice among its hosts")
    return hosts


FloatArray = npt.NDArray[np.float32]

_ELEMENT_BYTES = 4


class _Arrays(NamedTuple):
    """The contributions of all ranks, and their sum."""

    ranks: int
    of_rank: Callable[[int], FloatArray]
    total: Callable[[], FloatArray]

    def block(self, array: FloatArray, rank: int) -> FloatArray:
        block: FloatArray = array.reshape(self.ranks, -1)[rank]
        return block

    def stacked(self) -> FloatArray:
        return np.stack([self.of_rank(rank) for rank in range(self.ranks)])


class _Form(NamedTuple):
    """The call of a collective, and its expected result.

    Attributes:
        call: takes communicator, contribution and root; returns an awaitable.
        result: takes the arrays, the rank and the root.
        in_blocks: whether the contribution has a block for each rank.
    """

    call: Callable[[Any, FloatArray, int], Any]
    result: Callable[[_Arrays, int, int], FloatArray | None]
    in_blocks: bool = False


_FORMS: dict[str, _Form] = {
    "allreduce": _Form(lambda c, x, _: c.iallreduce(x), lambda a, _r, _o: a.total()),
    "reduce": _Form(lambda c, x, o: c.ireduce(x, o), lambda a, r, o: a.total() if r == o else None),
    "reduce-scatter": _Form(
        lambda c, x, _: c.ireduce_scatter(x.reshape(c.size, -1)),
        lambda a, r, _o: a.block(a.total(), r),
        in_blocks=True,
    ),
    "allgather": _Form(lambda c, x, _: c.iallgather(x), lambda a, _r, _o: a.stacked()),
    "broadcast": _Form(lambda c, x, o: c.ibroadcast(x, o), lambda a, _r, o: a.of_rank(o)),
    "gather": _Form(
        lambda c, x, o: c.igather(x, o), lambda a, r, o: a.stacked() if r == o else None
    ),
    "scatter": _Form(
        lambda c, x, o: c.iscatter(
            x.reshape(c.size, -1) if c.rank == o else None,
            o,
            np.empty((1, x.size // c.size), x.dtype),
        ),
        lambda a, r, o: a.block(a.of_rank(o), r),
        in_blocks=True,
    ),
    "alltoall": _Form(
        lambda c, x, _: c.ialltoall(x.reshape(c.size, -1)),
        lambda a, r, _o: np.stack([a.block(a.of_rank(s), r) for s in range(a.ranks)]),
        in_blocks=True,
    ),
    "barrier": _Form(lambda c, _x, _o: c.ibarrier(), lambda _a, _r, _o: None),
}


class CollectiveProgram(Program):
    """A repeated collective; see :class:`~innet.lab.workload.document.CollectiveSpecification`."""

    def __init__(self, job: CollectiveJob, place: ProgramContext) -> None:
        """
        Raises:
            WorkloadError: a host or the root does not exist.
            PlanError: the algorithm is unknown or does not fit.
        """
        super().__init__(job, place)
        written = job.written
        ranks = len(self.hosts)
        if written.root >= ranks:
            raise WorkloadError(
                f"job {job.name}: there is no rank {written.root}; ranks are 0 to {ranks - 1}"
            )
        self.operation = written.operation
        self.require_only_allreduce([self.operation])
        self._form = _FORMS[written.operation]
        self._root = written.root
        self._pause_s = written.pause
        self.size_bytes = self._whole_size_bytes(written.size)
        topology = place.sim.topology
        if written.operation == "allreduce":
            self.bound_s = allreduce_bound_s(topology, self.hosts, self.algorithm, self.size_bytes)
        else:
            self.bound_s = endpoint_bound_s(
                topology, self.hosts, written.operation, self.size_bytes, written.root
            )
        held_bytes = max(_ELEMENT_BYTES, self.size_bytes // place.sim.virtual_scale)
        self._pattern = Pattern(held_bytes, ranks)
        self._group = place.group(
            self.hosts, algorithm=self.algorithm, name=job.name, timeout_s=self.timeout_s
        )
        self._together = asyncio.Barrier(ranks)

    def completion_bound_s(self) -> float | None:
        """The bound with latency, of allreduces longer than :data:`NEAR_BOUND` bounds."""
        longest_s = max((ended - begun for begun, ended in self.record.spans_s), default=0.0)
        is_long = self.bound_s is not None and longest_s >= NEAR_BOUND * self.bound_s
        if self.operation != "allreduce" or not is_long:
            return None
        sim = self.place.sim
        segment_bytes = sim.segment_bytes * sim.virtual_scale
        return allreduce_completion_bound_s(
            sim.topology, self.hosts, self.algorithm, self.size_bytes, segment_bytes
        )

    async def rank(self, rank: int) -> None:
        """Take part in each operation, from a common start."""
        comm, sim = self._group[rank], self.place.sim
        for number in range(self.operations):
            contribution = self._pattern.contribution(rank, number)
            await self._together.wait()
            self.record.begin(number, sim.now_s)
            result = await self._form.call(comm, contribution, self._root)
            ended_s = sim.now_s
            self.record.end(number, ended_s, self._is_right(result, rank, number))
            if self._pause_s:
                await asyncio.sleep(self._pause_s)

    def _is_right(self, result: FloatArray | None, rank: int, number: int) -> bool:
        arrays = _Arrays(
            len(self.hosts),
            lambda rank: self._pattern.contribution(rank, number),
            lambda: self._pattern.total(number),
        )
        expected = self._form.result(arrays, rank, self._root)
        if expected is None or result is None:
            return expected is result
        return np.array_equal(result, expected.reshape(result.shape))

    def _whole_size_bytes(self, size_bytes: int) -> int:
        """The size, rounded up to whole elements, and to equal blocks for all ranks."""
        if self.operation == "barrier":
            return _ELEMENT_BYTES
        step = _ELEMENT_BYTES * self.place.sim.virtual_scale
        if self._form.in_blocks:
            step *= len(self.hosts)
        return -(-size_bytes // step) * step
