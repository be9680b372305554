"""One run of a workload, and what is told of it meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from innet.lab.simulation.experiment.packet_traces import PacketTrace
from innet.lab.simulation.experiment.payloads import Payloads
from innet.lab.simulation.workload import Workload
from innet.node.node_config import Mode
from innet.settings import Settings
from innet.topology import Topology


@dataclass(frozen=True)
class Task:
    """One run.

    Attributes:
        topology: where.
        workload: what.
        algorithm: of groups whose job does not name one.
        seed: of everything random.
        settings: of the nodes.
        like: the mode whose links are modelled.
        payloads: whether arrays are in memory.
        trace: which packets are written down.
    """

    topology: Topology
    workload: Workload
    algorithm: str
    seed: int
    settings: Settings
    like: Mode = "local"
    payloads: Payloads = "auto"
    trace: PacketTrace | None = None

    def __str__(self) -> str:
        return f"{self.algorithm} {self.workload.name} seed {self.seed}"


@dataclass(frozen=True)
class Moment:
    """How far a run has come.

    Attributes:
        virtual_s: time since the simulation began.
        packets: delivered so far.
        operations: that all ranks have ended.
        of_operations: that there are to do.
    """

    virtual_s: float
    packets: int
    operations: int
    of_operations: int


Observer = Callable[[Moment], None]
"""Told now and then; raises :class:`Interrupted` to end the run with what it has."""


class Interrupted(Exception):
    """The user wants no more."""


def nobody(_moment: Moment) -> None:
    """An observer that goes on."""
