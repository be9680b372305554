"""Makes the program of each kind of job, and the network for it."""

from __future__ import annotations

from innet.errors import WorkloadError
from innet.kv.designs import Design
from innet.lab.replay.plan import with_switch_memory
from innet.lab.simulation.programs.astra_sim import AstraSimProgram
from innet.lab.simulation.programs.collective import CollectiveProgram
from innet.lab.simulation.programs.kv.program import KvProgram, design_of
from innet.lab.simulation.programs.program import Place, Program
from innet.lab.simulation.programs.training import TrainingProgram
from innet.lab.simulation.workload.model import AstraSimJob, CollectiveJob, Job, KvJob, Workload
from innet.topology import Topology


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
    if isinstance(job, KvJob):
        return KvProgram(job, place)
    return TrainingProgram(job, place)


def fitted_topology(topology: Topology, workload: Workload, algorithm: str) -> Topology:
    """The topology with what jobs bring along: the memory that a replay has on switches.

    Raises:
        WorkloadError: there are several replays, and switches have one content store each.
    """
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
