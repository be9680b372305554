"""A job as the launcher describes it to its workers, in one file of the run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from innet.errors import EmulationError
from innet.plans import ProcessorCosts, SegmentRoom
from innet.plans.segment_room import aligned
from innet.validation_messages import StrictModel

JOB_VARIABLE = "INNET_JOB"
"""Environment variable with the path of the job file."""
ALGORITHM_VARIABLE = "INNET_ALGORITHM"
"""Environment variable with the algorithm that ``innet.init()`` uses when it is given none."""
RESTARTS_VARIABLE = "INNET_RESTARTS"
"""Environment variable with the number of restarts of the worker in this job: 0 at first."""
LOCAL_RANKS_VARIABLE = "INNET_LOCAL_RANKS"
"""Environment variable with the number of ranks that the launcher started on this machine."""
NETWORK_VARIABLE = "INNET_NETWORK"
"""Environment variable with the network that a process attaches to when it forms a group."""
ATTACHED_VARIABLE = "INNET_ATTACHED"
"""Pid of the process that attached; empty in a worker of ``innet run``.

A child that inherits the variable has not attached itself, and is another launcher's, too.
"""

SEGMENT_OVERHEAD_BYTES = 256
"""Room left in a packet for names, metadata, signature and link headers around a segment.

Groups whose names need more have smaller segments (:meth:`JobFile.segment_room_beside`).
"""

OnDeath = Literal["abort", "shrink", "wait"]
"""The policy of a group for the death of a rank's process: see docs/faults.md."""


class JobFile(StrictModel):
    """A job: which nodes hold its ranks, over which network."""

    name: str
    """The job's name as prefix of its names, and in records and events: ``train.1``."""
    ranks: tuple[str, ...]
    """Node of each rank."""
    topology: str
    """The topology as JSON: reading YAML would take each rank a tenth of a second."""
    slowest_link_bps: float | None
    """Bits per second of the network's slowest link; ``None``: no link has a rate."""
    segment_bytes: int
    """Content of a full segment: what the smallest MTU on the way leaves room for."""
    bulk_segment_bytes: int
    """The most that a segment of a large operation has, where packets may span datagrams."""
    block_segment_bytes: int
    """Content of a full segment of a pool's block."""
    controller_socket: Path
    """This path and the next are relative to the file's directory, which each machine has its own
    of."""
    certificates: Path
    """File of the job's certificates, which its nodes serve."""
    on_worker_death: OnDeath = "abort"
    """The policy of groups that do not choose one."""
    processor: ProcessorCosts | None = None
    """Costs of work on the nodes, by which ``auto`` chooses; ``None``: only links take time."""

    def segment_room_beside(self, overhead_bytes: int) -> SegmentRoom:
        """Content of a full segment whose packet has ``overhead_bytes`` beside it.

        Where names are short, it is :attr:`segment_bytes` and :attr:`bulk_segment_bytes`.
        """
        excess_bytes = max(0, overhead_bytes - SEGMENT_OVERHEAD_BYTES)
        excess_bytes = -aligned(-excess_bytes)
        return SegmentRoom(
            self.segment_bytes - excess_bytes, self.bulk_segment_bytes - excess_bytes
        )

    @classmethod
    def load(cls, path: Path) -> JobFile:
        """Read the file."""
        try:
            job = cls.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise EmulationError(
                f"cannot read the job {path}: {error}. Start workers with `innet run`."
            ) from error
        return job.model_copy(
            update={
                "controller_socket": path.parent / job.controller_socket,
                "certificates": path.parent / job.certificates,
            }
        )
