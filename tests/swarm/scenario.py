"""What one run of the swarm is made of: plain data, so that it can be printed, cut down and rerun.

Times are virtual seconds; sizes are elements or bytes as their names say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pydantic import TypeAdapter

Collective = Literal[
    "allreduce",
    "reduce",
    "reduce_scatter",
    "allgather",
    "broadcast",
    "gather",
    "scatter",
    "alltoall",
    "barrier",
    "message",
    "allreduce_q8",
    "reduce_by_key",
    "allreduce_of",
    "one_sided",
    "object",
    "mismatch",
]
FaultKind = Literal[
    "link_down",
    "link_up",
    "link_change",
    "crash",
    "restart",
    "fail_worker",
    "pause",
    "resume",
    "advance_clock",
]


@dataclass(frozen=True)
class LinkModel:
    """What every link of the network does; for the meaning see :class:`innet.topology.Link`."""

    rate_bps: float | None = 1e9
    delay_s: float = 1e-5
    queue_bytes: int = 512 * 1024
    mtu_bytes: int = 9000
    loss: float = 0.0
    jitter_s: float = 0.0
    reorder: float = 0.0
    reorder_delay_s: float = 0.0
    duplicate: float = 0.0
    corrupt: float = 0.0

    @property
    def least_hop_s(self) -> float:
        """What an Interest and a full Data take over an idle link."""
        wire_s = 0.0 if self.rate_bps is None else 8 * self.mtu_bytes / self.rate_bps
        return 2 * self.delay_s + wire_s

    @property
    def gentle(self) -> bool:
        """Whether operations on such links have no excuse for failing."""
        late = self.reorder if self.reorder_delay_s >= 1.0 else 0.0
        room = max(64 * 1024, 4 * self.mtu_bytes)  # for a window at its least
        return self.loss + self.corrupt + late <= 0.02 and self.queue_bytes >= room


@dataclass(frozen=True)
class Call:
    """One collective, called by every rank of its group.

    Attributes:
        collective: which; ``mismatch`` is an allreduce to which the root brings another shape,
            ``one_sided`` a put to an array of the root, and a get of it, ``object`` a signed
            object of the root, which the others fetch (for hosts of a job).
        op: of reductions.
        dtype: of NumPy.
        elements: of the array, or of each rank's block.
        root: of rooted collectives; the sender of a message, which the next rank receives.
        in_place: the result goes over the input, where the collective can.
        awaited: the rank waits for it before its next call.
        sleeps_s: what each rank computes before it calls.
        k: of the ranks must be in a sum over some (``allreduce_of``).
        patience_s: for how long that sum waits for the others.
        cancelled_by: the rank that gives its call up after ``cancelled_after_s``.
    """

    collective: Collective
    op: str = "sum"
    dtype: str = "float32"
    elements: int = 1
    root: int = 0
    in_place: bool = False
    awaited: bool = True
    sleeps_s: tuple[float, ...] = ()
    k: int = 1
    patience_s: float = 0.0
    cancelled_by: int | None = None
    cancelled_after_s: float = 0.0


@dataclass(frozen=True)
class Group:
    """Ranks on hosts, and what they call one after the other."""

    hosts: tuple[str, ...]
    algorithm: str = "inc"
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Job:
    """Hosts whose groups have names, keys and a part of the switches of their own."""

    name: str
    hosts: tuple[str, ...]
    weight: int = 1


@dataclass(frozen=True)
class Fault:
    """Something that happens to the network at a time.

    Attributes:
        time_s: when.
        kind: what; ``fail_worker`` lets the groups of a crashed host hear of it.
        target: a node, or two neighbours for a link.
        link: what the link does from now on (``link_change``).
        by_s: how far a clock jumps.
    """

    time_s: float
    kind: FaultKind
    target: tuple[str, ...]
    link: LinkModel | None = None
    by_s: float = 0.0


@dataclass(frozen=True)
class Scenario:
    """One run: a network, groups at once, what their ranks do, and what befalls them.

    Attributes:
        seed: of all that is random in the simulation.
        topology: as ``innet`` takes it, or ``random:<hosts>x<switches>x<more links>x<seed>``.
        links: all of them.
        groups: at work at the same time.
        jobs: that share the network; without any, all groups belong to the same.
        slots: of each switch.
        cache_bytes: of each node.
        timeout_s: deadline of operations.
        settings: as ``name`` and ``value``.
        faults: by time.
        audit_interval: events of a node between two looks at its tables.
    """

    seed: int
    topology: str
    links: LinkModel
    groups: tuple[Group, ...]
    jobs: tuple[Job, ...] = ()
    slots: int = 4096
    cache_bytes: int = 1 << 20
    timeout_s: float = 30.0
    settings: dict[str, str] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    audit_interval: int = 1

    def to_json(self) -> str:
        """The scenario as text, for ``--scenario FILE``."""
        return _ADAPTER.dump_json(self, indent=1, exclude_defaults=True).decode()

    @staticmethod
    def from_json(text: str) -> Scenario:
        """The scenario of a text that :meth:`to_json` made."""
        return _ADAPTER.validate_json(text)


_ADAPTER = TypeAdapter(Scenario)
