"""The published JSON documents, one model each. Units are in the names; times are Unix times.

Readers ignore fields they do not know, so that a newer run can be watched. All else is bounded: a
machine or a program that lies makes its own documents unreadable, and no reader fail.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    JsonValue,
    model_validator,
)
from pydantic.fields import FieldInfo

from innet._native import _core
from innet.printable import one_line
from innet.telemetry.durations import AGE_BOUNDS_S, DURATION_BOUNDS_S
from innet.validation_messages import at_most

MOST_NODES: Final = 20_000
MOST_LINKS: Final = 1 << 16
"""Nodes of one run that readers keep, and links of one node."""

Name = Annotated[str, Field(max_length=256), AfterValidator(one_line)]
Text = Annotated[str, Field(max_length=4096), AfterValidator(one_line)]
Count = Annotated[int, Field(ge=0, lt=1 << 64)]
Amount = Annotated[float, Field(ge=0, le=1e18)]
"""Finite, not negative: a time or a size."""
Place = Annotated[int, Field(ge=0, lt=1 << 31)]
Counts = Annotated[dict[Name, Count], at_most(256)]

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
    "machine_joined",
    "machine_lost",
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
        "machine_lost",
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
    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        defer_build=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )

    def payload(self) -> bytes:
        """The document as it is published."""
        return self.model_dump_json().encode()


class NodeStatus(_Message):
    """Retained: whether a node lives. Of ``gone``, only run, node and state are certain."""

    run: Name
    node: Name
    state: State
    kind: Literal["switch", "host"]
    pid: Annotated[int, Field(ge=0, le=1 << 22)]
    since_s: Amount
    """When this process came up."""


class MachineStatus(_Message):
    """A machine of a run, in ``cluster`` mode."""

    name: Name
    state: Literal["starting", "up", "lost"]
    address: Name
    """Where it joined from; empty: it has not joined."""
    since_s: Amount
    why: Text
    """Why it is lost."""
    nodes: Annotated[tuple[Name, ...], FailFast(), Field(max_length=MOST_NODES)]
    ran: Annotated[tuple[Name, ...], FailFast(), Field(max_length=MOST_NODES)]
    """The nodes that had a process there when it was lost."""


class LauncherStatus(_Message):
    """Retained: which network the run is, and whether its launcher lives."""

    run: Name
    state: State
    topology: Name
    mode: Name
    pid: Annotated[int, Field(ge=0, le=1 << 22)]
    since_s: Amount
    nodes: Annotated[tuple[Name, ...], FailFast(), Field(max_length=MOST_NODES)]
    machines: Annotated[tuple[MachineStatus, ...], FailFast(), Field(max_length=MOST_NODES)] = ()


class ControllerStatus(_Message):
    """Retained: whether the controller lives."""

    run: Name
    state: State
    pid: Annotated[int, Field(ge=0, le=1 << 22)]
    since_s: Amount
    generation: Count
    """How often it was started again."""


class Counters(_Message):
    """Counters of one table, since the node came up, each an attribute.

    docs/counters.md lists them; ``_core.describe_metrics()`` is the list itself. Values of a
    newer node that the list does not have are kept.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Count]
    table: ClassVar[str] = ""
    """Its name in ``_core.describe_metrics()``."""

    if TYPE_CHECKING:

        def __getattr__(self, key: str) -> int: ...

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, counters: Any) -> Any:
        """Counters that an older node does not have are 0; no reader fails without them."""
        if not isinstance(counters, dict):
            return counters
        if len(counters) > _MOST_COUNTERS or not all(map(_is_counter, counters)):
            raise ValueError("expected the counters of one table")
        return dict.fromkeys(counters_of_table(cls.table), 0) | counters


_MOST_COUNTERS: Final = 256
_COUNTER: Final = re.compile(r"[a-z0-9_]{1,64}")


def _is_counter(key: object) -> bool:
    return isinstance(key, str) and _COUNTER.fullmatch(key) is not None


@functools.cache
def counters_of_table(table: str) -> frozenset[str]:
    """The counters that nodes of this version have in a table of ``_core.describe_metrics()``."""
    return frozenset(key for key, *_ in _core.describe_metrics().get(table, []))


class NodeTable(Counters):
    """The counters of a node's tables."""

    table = "node"


class ReducerTable(Counters):
    """The counters of a node's reducer."""

    table = "reducer"


class EndpointTable(Counters):
    """The counters of a node's transport."""

    table = "endpoint"


class PortTable(Counters):
    """The counters of a link's queue."""

    table = "port"


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

    table = "links"

    peer: Name
    face: Place
    silent: bool
    """No packets reach the peer or come back; also while no process runs there."""
    backlog_packets: Count
    backlog_dropped: Count
    port: PortTable
    """The emulator's own queue in front of a link; zeros where the kernel has the queue."""


def _buckets(bounds_s: Sequence[float]) -> FieldInfo:
    return cast(FieldInfo, Field(min_length=len(bounds_s) + 1, max_length=len(bounds_s) + 1))


class DurationCounters(_Message):
    """How long something took."""

    counts: Annotated[tuple[Count, ...], FailFast(), _buckets(DURATION_BOUNDS_S)]
    """Durations up to 1, 3, 10, 30, 100 and 300 ms, 1, 3 and 10 s, and longer."""
    sum_s: Amount


class AgeCounters(_Message):
    """How old something was."""

    counts: Annotated[tuple[Count, ...], FailFast(), _buckets(AGE_BOUNDS_S)]
    """Ages up to 1 and 10 s, 1 and 10 min, 1, 6 and 24 h, and longer."""
    sum_s: Amount


class TierCounters(_Message):
    """One tier of a pool's store at one node."""

    blocks: Count
    used_bytes: Count
    capacity_bytes: Count
    pinned_bytes: Count
    evicted: Count
    eviction_ages: AgeCounters
    """How long evicted blocks were in the tier."""
    damaged: Count
    failed: Count
    """Blocks that it could not write or read."""
    fault: Text
    """Why it cannot write blocks now; empty: it can."""


class PoolCounters(_Message):
    """A pool of KV blocks, as the process of one node uses it, since it joined."""

    tenant: Name
    engine: Name
    model: Name
    """Its name, where the program gives one."""
    hits: Counts
    """Hits, by place."""
    misses: Counts
    """Misses, by cause."""
    looked_up: Count
    found: Count
    """How many of the blocks looked up were found."""
    loaded_bytes: Count
    stored: Count
    stored_bytes: Count
    lost_copies: Counts
    """Homes that did not keep a block that was put, by cause."""
    served: Count
    replicated: Count
    """Copies that other homes keep at this process's request."""
    load_times: DurationCounters
    store_times: DurationCounters
    tiers: Annotated[dict[Name, TierCounters], at_most(16)]


class NodeCounters(_Message):
    """Retained: everything that a node counts, at one moment."""

    run: Name
    node: Name
    kind: Literal["switch", "host"]
    time_s: Amount
    uptime_s: Amount
    interval_s: Amount
    """Until the next one."""
    cpu_s: Amount
    telemetry_cpu_s: Amount
    """The part of ``cpu_s`` that publishing took."""
    resident_bytes: Count
    slots: Count
    """Reductions that a switch may work on at once."""
    tables: NodeTable
    reducer: ReducerTable
    endpoint: EndpointTable
    links: Annotated[tuple[FaceCounters, ...], FailFast(), Field(max_length=MOST_LINKS)]
    pools: Annotated[tuple[PoolCounters, ...], FailFast(), Field(max_length=256)] = ()
    """The pools of KV blocks that the host's process has joined."""
    commands_refused: Counts
    """Refused commands, by reason."""
    events_dropped: Count
    """Events that were never published, because the broker was away for too long."""


class RunEvent(_Message):
    """An event of a process."""

    run: Name
    source: Name
    """A node's name, ``launcher`` or ``controller``."""
    number: Count
    """Counts the events of this process, from 1."""
    time_s: Amount
    kind: EventKind
    message: Text
    details: Annotated[dict[Name, JsonValue], at_most(256)] = {}


class CommandReply(_Message):
    """The outcome of a command."""

    run: Name
    node: Name
    number: Count | None
    """The command's number; ``None`` when it could not be read."""
    accepted: bool
    message: Text
    result: JsonValue = None
