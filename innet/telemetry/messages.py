"""The published JSON documents, one model each. Units are in the names; times are Unix times.

Readers ignore fields they do not know, so that a newer run can be watched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ConfigDict, JsonValue

State = Literal["up", "stopped", "gone"]
"""``stopped``: ended in order. ``gone``: the broker lost it, by a crash or a cut connection."""

EventKind = Literal[
    "cache_dropped",
    "command_accepted",
    "command_refused",
    "group_joined",
    "group_left",
    "interval_set",
    "link_lost",
    "link_restored",
    "link_silent",
    "operation_failed",
    "packets_refused",
    "peer_lost",
    "process_ended",
    "route_missing",
    "rules_installed",
    "rules_removed",
    "slots_exhausted",
    "sums_moved",
    "switch_lost",
    "switch_restored",
    "worker_busy",
    "worker_expelled",
]
ALARMING_KINDS: Final[frozenset[EventKind]] = frozenset(
    {
        "command_refused",
        "link_lost",
        "link_silent",
        "operation_failed",
        "packets_refused",
        "peer_lost",
        "route_missing",
        "slots_exhausted",
        "switch_lost",
        "worker_expelled",
    }
)
"""Kinds of events that say that something is wrong."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    def payload(self) -> bytes:
        """The document as it is published."""
        return self.model_dump_json().encode()


class NodeStatus(_Message):
    """Retained: whether a node lives. Of ``gone``, only run, node and state are certain."""

    run: str
    node: str
    state: State
    kind: Literal["switch", "host"]
    pid: int
    since_s: float
    """When this process came up."""


class LauncherStatus(_Message):
    """Retained: which network the run is, and whether its launcher lives."""

    run: str
    state: State
    topology: str
    mode: str
    pid: int
    since_s: float
    nodes: tuple[str, ...]


class ControllerStatus(_Message):
    """Retained: whether the controller lives."""

    run: str
    state: State
    pid: int
    since_s: float
    generation: int
    """How often it was started again."""


class Counters(_Message):
    """Counters of one table, since the node came up, each an attribute.

    docs/counters.md lists them; ``_core.describe_metrics()`` is the list itself. Values of a
    newer node that the list does not have are kept.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int]

    if TYPE_CHECKING:

        def __getattr__(self, key: str) -> int: ...


REFUSALS: Final = (
    "malformed",
    "invalid_signature",
    "unknown_key",
    "key_out_of_scope",
    "key_expired",
)
"""Counters of ``NodeCounters.tables``: packets that were not verified, by reason."""


def refused_packets(tables: Mapping[str, int]) -> int:
    """Packets that a node refused: not verified, or not allowed where they came from."""
    reasons = (*REFUSALS, "forbidden_interests", "forbidden_answers")
    return sum(tables.get(reason, 0) for reason in reasons)


class FaceCounters(Counters):
    """One face of a node, since it came up."""

    peer: str
    face: int
    silent: bool
    """No packets reach the peer or come back; also while no process runs there."""
    backlog_packets: int
    backlog_dropped: int
    port: Counters
    """The emulator's own queue in front of a link; zeros where the kernel has the queue."""


class DurationCounters(_Message):
    """How long something took."""

    counts: tuple[int, ...]
    """Durations up to 1, 3, 10, 30, 100 and 300 ms, 1, 3 and 10 s, and longer; ages up to 1 and 10
    s, 1 and 10 min, 1, 6 and 24 h, and longer."""
    sum_s: float


class TierCounters(_Message):
    """One tier of a pool's store at one node."""

    blocks: int
    used_bytes: int
    capacity_bytes: int
    pinned_bytes: int
    evicted: int
    eviction_ages: DurationCounters
    """How long evicted blocks were in the tier."""
    damaged: int
    failed: int
    """Blocks that it could not write or read."""
    fault: str
    """Why it cannot write blocks now; empty: it can."""


class PoolCounters(_Message):
    """A pool of KV blocks, as the process of one node uses it, since it joined."""

    tenant: str
    engine: str
    model: str
    """Its name, where the program gives one."""
    hits: dict[str, int]
    """Hits, by place."""
    misses: dict[str, int]
    """Misses, by cause."""
    looked_up: int
    found: int
    """How many of the blocks looked up were found."""
    loaded_bytes: int
    stored: int
    stored_bytes: int
    lost_copies: dict[str, int]
    """Homes that did not keep a block that was put, by cause."""
    served: int
    replicated: int
    """Copies that other homes keep at this process's request."""
    load_times: DurationCounters
    store_times: DurationCounters
    tiers: dict[str, TierCounters]


class NodeCounters(_Message):
    """Retained: everything that a node counts, at one moment."""

    run: str
    node: str
    kind: Literal["switch", "host"]
    time_s: float
    uptime_s: float
    interval_s: float
    """Until the next one."""
    cpu_s: float
    telemetry_cpu_s: float
    """The part of ``cpu_s`` that publishing took."""
    resident_bytes: int
    slots: int
    """Reductions that a switch may work on at once."""
    tables: Counters
    reducer: Counters
    endpoint: Counters
    links: tuple[FaceCounters, ...]
    pools: tuple[PoolCounters, ...] = ()
    """The pools of KV blocks that the host's process has joined."""
    commands_refused: dict[str, int]
    """Refused commands, by reason."""
    events_dropped: int
    """Events that were never published, because the broker was away for too long."""


class RunEvent(_Message):
    """An event of a process."""

    run: str
    source: str
    """A node's name, ``launcher`` or ``controller``."""
    number: int
    """Counts the events of this process, from 1."""
    time_s: float
    kind: EventKind
    message: str
    details: dict[str, JsonValue] = {}


class CommandReply(_Message):
    """The outcome of a command."""

    run: str
    node: str
    number: int | None
    """The command's number; ``None`` when it could not be read."""
    accepted: bool
    message: str
    result: JsonValue = None
