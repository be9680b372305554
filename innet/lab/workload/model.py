"""What a workload is once its files have been read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from innet.errors import WorkloadError
from innet.lab.traces import Request
from innet.lab.workload.document import (
    AstraSimSpecification,
    BackgroundSpecification,
    CollectiveSpecification,
    KvSpecification,
    TrainingSpecification,
)
from innet.lab.workload.layer_files import AstraSimModel, Layer
from innet.topology.events import Event


@dataclass(frozen=True)
class CollectiveJob:
    """A collective, repeated."""

    name: str
    written: CollectiveSpecification


@dataclass(frozen=True)
class TrainingJob:
    """Steps of data-parallel training."""

    name: str
    written: TrainingSpecification
    layers: tuple[Layer, ...]


@dataclass(frozen=True)
class AstraSimJob:
    """A training loop of ASTRA-sim's."""

    name: str
    written: AstraSimSpecification
    model: AstraSimModel


@dataclass(frozen=True)
class KvJob:
    """A replay of requests."""

    name: str
    written: KvSpecification
    requests: tuple[Request, ...]


Job = CollectiveJob | TrainingJob | AstraSimJob | KvJob


@dataclass(frozen=True)
class Workload:
    """Jobs that run at once, and what goes on beside them.

    Attributes:
        name: for titles and directories.
        jobs: in the order of the file.
        events: what happens meanwhile.
        background: traffic of others.
    """

    name: str
    jobs: tuple[Job, ...]
    events: tuple[Event, ...] = ()
    background: tuple[BackgroundSpecification, ...] = ()

    @property
    def is_replay(self) -> bool:
        """Whether all jobs are replays of requests, whose designs are compared."""
        return all(isinstance(job, KvJob) for job in self.jobs)

    @property
    def block_bytes(self) -> int | None:
        """Of a block, where all is one replay of requests."""
        job = self.jobs[0]
        return job.written.block if len(self.jobs) == 1 and isinstance(job, KvJob) else None

    def with_size(self, size_bytes: int) -> Workload:
        """The same with another size of its collective, or of its cluster's memory for blocks.

        Raises:
            WorkloadError: it is no single job of these kinds, or the memory holds no block.
        """
        job = self.jobs[0]
        if len(self.jobs) != 1 or not isinstance(job, CollectiveJob | KvJob):
            raise WorkloadError(
                f"sizes can only be swept of a single collective or of the cache of a single kv "
                f"job; {self.name} has other jobs. "
                "Leave --sizes out, or give a workload such as allreduce:16MiB"
            )
        if isinstance(job, KvJob):
            if (why := job.written.why_no_cache_of(size_bytes)) is not None:
                raise WorkloadError(f"{self.name}: {why}")
            cached = job.written.model_copy(update={"cache": size_bytes})
            return replace(self, jobs=(replace(job, written=cached),))
        written = job.written.model_copy(update={"size": size_bytes})
        return replace(self, jobs=(replace(job, written=written),))

    def with_repetitions(self, repetitions: int) -> Workload:
        """The same with so many timed operations or steps of each job."""
        jobs: list[Job] = [
            replace(job, written=job.written.model_copy(update={"repetitions": repetitions}))  # type: ignore[arg-type]
            for job in self.jobs
        ]
        return replace(self, jobs=tuple(jobs))
