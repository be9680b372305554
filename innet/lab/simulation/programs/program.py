"""The base class of programs, the record of their operations, and where they run."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from innet.errors import WorkloadError
from innet.lab.compare.measurement import BlockPlaces
from innet.lab.compare.methods import is_simulated_tcp
from innet.lab.simulation.baselines import TcpGroup
from innet.lab.simulation.event_schedule import Processors
from innet.lab.simulation.simulation import Simulation
from innet.lab.workload.model import Job
from innet.topology import Topology


@dataclass
class Record:
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
class Place:
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

    def __init__(self, job: Job, place: Place) -> None:
        """
        Raises:
            WorkloadError: a host of the job does not exist.
        """
        self.name = job.name
        self.hosts = job_hosts(job, place.sim.topology)
        self.algorithm = job.written.algorithm or place.algorithm
        self.operations = job.written.warm_up + job.written.repetitions
        self.record = Record(len(self.hosts), job.written.warm_up)
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
        """Where blocks were found so far; only in a replay of requests."""
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
    hosts = tuple(job.written.hosts or topology.hosts)
    for host in hosts:
        if host not in topology.hosts:
            raise WorkloadError(
                f"job {job.name}: {host!r} is not a host of {topology.name}; "
                f"its hosts: {', '.join(topology.hosts)}"
            )
        if hosts.count(host) > 1:
            raise WorkloadError(f"job {job.name}: {host} is listed twice among its hosts")
    return hosts
