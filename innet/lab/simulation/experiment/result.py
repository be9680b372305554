"""What one run gives. Made of plain values: results come from other processes."""

from __future__ import annotations

from dataclasses import dataclass, field

from innet.lab.compare.measurement import LinkTraffic, QueueSeries
from innet.lab.replay import ReferenceRates
from innet.lab.replay.counts import BlockCounts
from innet.lab.simulation.event_schedule import Applied


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
