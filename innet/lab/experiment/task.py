"""One run of a workload: what to do, what is told of it meanwhile, and what it gives.

All are plain values: they go to other processes and come back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from innet.lab.compare.measurement import LinkTraffic, QueueSeries
from innet.lab.replay import ReferenceRates
from innet.lab.replay.worker import BlockCounts
from innet.lab.simulation.event_schedule import Applied
from innet.lab.workload import Workload
from innet.node.node_config import Mode
from innet.settings import Settings
from innet.topology import Topology
from innet.topology.link_choice import Links

Payloads = Literal["auto", "real", "virtual"]
"""``auto``: real as long as the arrays of all hosts take little memory."""


@dataclass(frozen=True)
class PacketTrace:
    """A trace of one run.

    Attributes:
        path: of the file.
        links: whose packets are in it; ``None``: all links.
    """

    path: Path
    links: Links | None = None


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


@dataclass(frozen=True)
class JobResult:
    """One job's operations.

    Attributes:
        job: its name.
        algorithm: of its groups.
        operation: in words.
        size_bytes: of each rank's tensor.
        bound_s: least time of an operation, if that is known.
        spans_s: beginning and end of each timed operation, in virtual time.
        correct: whether every result was right.
        failure: why it ended early, if it did.
        completion_bound_s: the same with latency, where that makes operations long.
        blocks: where blocks were found, in a replay of requests.
        references: what one store finds in the same replay.
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
    blocks: BlockCounts | None = None
    references: ReferenceRates | None = None


@dataclass(frozen=True)
class RunResult:
    """One run.

    Attributes:
        seed: that decided everything.
        jobs: in the workload's order.
        links: what each direction carried, over the whole run.
        queue: the deepest one, during the first timed operation.
        operations: of all jobs, untimed ones included.
        retransmissions: Interests and TCP segments sent again.
        slots_in_use_max: the most at once on one switch.
        events: what happened.
        virtual_s: how long it took in the simulation.
        wall_s: and outside.
        packets: delivered.
        interrupted: the user ended it.
        virtual_scale: what each byte of an array stood for.
        background_bytes: offered by others.
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
    events: list[Applied] = field(default_factory=list)
