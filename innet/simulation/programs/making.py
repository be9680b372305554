"""Makes the program of each kind of job."""

from __future__ import annotations

from innet.simulation.programs.astra_sim import AstraSimProgram
from innet.simulation.programs.collective import CollectiveProgram
from innet.simulation.programs.program import Place, Program
from innet.simulation.programs.training import TrainingProgram
from innet.simulation.workload.model import AstraSimJob, CollectiveJob, Job


def make_program(job: Job, place: Place) -> Program:
    """The program of ``job``, whose groups are there.

    Raises:
        WorkloadError: it does not fit the topology.
        PlanError: an algorithm is unknown or does not fit.
    """
    if isinstance(job, CollectiveJob):
        return CollectiveProgram(job, place)
    if isinstance(job, AstraSimJob):
        return AstraSimProgram(job, place)
    return TrainingProgram(job, place)
