"""What a workload is once its files have been read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from innet.errors import WorkloadError
from innet.simulation.workload.astra_sim import AstraSimModel
from innet.simulation.workload.background import BackgroundSpecification
from innet.simulation.workload.document import (
    AstraSimSpecification,
    CollectiveSpecification,
    TrainingSpecification,
)
from innet.simulation.workload.layers import Layer
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


Job = CollectiveJob | TrainingJob | AstraSimJob


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

    def with_size(self, size_bytes: int) -> Workload:
        """The same with another size of its collective.

        Raises:
            WorkloadError: it is no single collective.
        """
        if len(self.jobs) != 1 or not isinstance(self.jobs[0], CollectiveJob):
            raise WorkloadError(
                f"sizes can only be swept of a single collective; {self.name} has other jobs. "
                "Leave --sizes out, or give a workload such as allreduce:16MiB"
            )
        job = self.jobs[0]
        written = job.written.model_copy(update={"size": size_bytes})
        return replace(self, jobs=(replace(job, written=written),))

    def with_repetitions(self, repetitions: int) -> Workload:
        """The same with so many timed operations or steps of each job."""
        jobs: list[Job] = [
            replace(job, written=job.written.model_copy(update={"repetitions": repetitions}))  # type: ignore[arg-type]
            for job in self.jobs
        ]
        return replace(self, jobs=tuple(jobs))
