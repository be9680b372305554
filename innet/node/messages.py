"""Messages between nodes and the controller: jobs, pools, rules, reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field

from innet.names import Name
from innet.security.keys import JobTrust, Key
from innet.validation_messages import at_most

MAX_WEIGHT: Final = 1000
"""Largest weight of a job or pool that switches accept."""
MAX_TENANT_NAME: Final = 64
"""Characters of a tenant's name that displays show."""
MAX_ANNOUNCED_PREFIXES = 4096
"""Maximum number of prefixes of a node that are announced to the others."""
_MAX_LABEL_SIZE = 32
"""Bytes of the label in a Hold; ``wire::kMaxLabelSize``."""
_MAX_LINKS: Final = 4096
"""Of a node."""
_MAX_GROUPS: Final = 4096
"""Groups, and pools, that a worker reports."""
_MAX_PLANS: Final = 4096
"""Of a group: one for each tree."""
_MAX_LATE: Final = 1 << 16


def _canonical(prefix: str) -> str:
    """One name has one text: a reserved name in another spelling would be announced."""
    if str(Name(prefix)) != prefix:
        raise ValueError(f"{prefix!r} is not the usual form of this name: {Name(prefix)}")
    return prefix


Count = Annotated[int, Field(ge=0, lt=1 << 63)]
NodeText = Annotated[str, Field(min_length=1, max_length=64)]
"""The name of a node, or of a worker of a host."""
Reason = Annotated[str, Field(max_length=1 << 16)]
"""Why something has ended, for people."""
SealingKey = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""A public X25519 key, hexadecimal."""
TenantComponent = Annotated[str, Field(pattern="^[0-9a-f]{2,128}$")]
_Seconds = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
_Prefix = Annotated[str, Field(max_length=1 << 15), AfterValidator(_canonical)]
_BytesByPeer = Annotated[dict[NodeText, Count], at_most(_MAX_LINKS)]
_Plans = Annotated[dict[str, dict[str, Any]], at_most(_MAX_PLANS)]


class GroupFailure(NamedTuple):
    """Why a group has ended, on the wire an array of two elements.

    Attributes:
        why: the cause, for people.
        rank: the rank of that group that failed; ``None``: the group ended for another reason.
    """

    why: str
    rank: int | None = None


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class JobMessage(_Message):
    """A job that a switch is to serve, with its keys."""

    prefix: str
    weight: int
    hosts: tuple[str, ...]
    """Faces to these nodes carry names of the job, and of no other."""
    keys: JobTrust
    admits_others: bool
    """The faces to the job's hosts carry names of no job, too."""


KV_PREFIX: Final = "/kv"
"""First component of the names of all KV blocks."""


def tenant_prefix(tenant: str) -> str:
    """The prefix of all names of a tenant's pool, of blocks and of requests.

    >>> tenant_prefix("a1b2")
    '/kv/a1b2'
    """
    return f"{KV_PREFIX}/{tenant}"


class PoolMessage(_Message):
    """A pool of blocks that a switch is to serve."""

    prefix: str
    """Two components: ``/kv/<tenant>``."""
    weight: int
    hosts: tuple[str, ...]
    """Faces to these nodes carry names of the pool, beside those of their jobs."""
    key: Key
    """The tenant's public key: it vouches for names of the pool, and for no others."""


class NodeReading(_Message):
    """How much a node and its links are used: counters since its start."""

    time_s: _Seconds
    """Since the start of the node."""
    cpu_s: _Seconds
    sent_bytes: _BytesByPeer = {}
    """Bytes sent, by neighbour."""
    received_bytes: _BytesByPeer = {}
    slots: Count = 0
    slots_in_use: Annotated[dict[str, Count], at_most(_MAX_GROUPS)] = {}
    """Slots in use, by prefix of a job."""
    late: Annotated[tuple[str, ...], FailFast(), Field(max_length=_MAX_LATE)] = ()
    """The ranks that its operations wait for, as ``producer_label`` says them."""

    @property
    def peers(self) -> frozenset[str]:
        """The nodes at the other ends of the links that it counts."""
        return frozenset(self.sent_bytes) | frozenset(self.received_bytes)


class PingReply(BaseModel):
    """What a node answers to a ping, of which this is what the controller reads.

    Attributes:
        unheard: the neighbours that it receives nothing from.
        reading: ``None`` of a node that has been stopped.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    unheard: Annotated[tuple[NodeText, ...], FailFast(), Field(max_length=_MAX_LINKS)]
    reading: NodeReading | None = None


class ServedPrefixes(_Message):
    """The prefixes that the programs of a node serve.

    Attributes:
        version: grows with each change, as long as the node's process lives.
        prefixes: as URIs, without repetition.
    """

    model_config = ConfigDict(frozen=True)

    version: Count
    prefixes: Annotated[tuple[_Prefix, ...], FailFast(), Field(max_length=MAX_ANNOUNCED_PREFIXES)]


class RuleMessage(_Message):
    """One reduction rule, as :class:`innet.plans.Rule` has it, in plain types."""

    interval: str
    operands: list[tuple[str, str]]
    """(interval, node that answers for it)."""
    primary: bool
    ahead_to: list[str] = []
    """The node to which the sum is sent ahead, by shard; empty: none."""


def job_of(prefix: str) -> str:
    """The job that a plan's name prefix belongs to.

    >>> job_of("/j1/g0.inc")
    'j1'
    """
    return prefix.split("/")[1]


class GroupReport(_Message):
    """A worker's place in a group.

    Attributes:
        name, number, algorithm, ranks: as the controller gave them.
        plans: by name prefix, as made for the whole network.
        placed: of those whose sums are made elsewhere now, where.
        ready: the worker answers for its names.
        left: it needs nothing more of the group.
        failure: why the group has ended, if the worker knows that it has.
    """

    name: str
    number: Count
    algorithm: str
    ranks: Annotated[tuple[NodeText, ...], FailFast()]
    plans: _Plans
    placed: _Plans = {}
    ready: bool
    left: bool
    failure: GroupFailure | None


class PoolReport(_Message):
    """A worker's part in a pool of blocks.

    Attributes:
        tenant: whose blocks they are: the component that stands for it in names.
        key: that verifies them.
        capacity_bytes: of memory that the worker offers to others; 0: none.
        weight: the pool's part of the switches' memory, beside other pools' and jobs' weights.
        replicas: homes of each block, as this member counts them.
        name: of the tenant, for people.
        proof: that the worker has the private half of the key, hexadecimal
            (:mod:`innet.security.pool_proofs`).
    """

    tenant: TenantComponent
    key: Key
    capacity_bytes: Count
    weight: int
    replicas: int = Field(default=1, ge=1, le=1 << 16)
    name: str = Field(default="", max_length=MAX_TENANT_NAME)
    proof: str = Field(default="", pattern="^([0-9a-f]{128})?$")


class WorkerReport(_Message):
    """A worker, and the groups and pools that it is in.

    Attributes:
        node: its host.
        pid: its process.
        incarnation: as the controller gave it.
        failed: why it cannot continue; ``None``: it can.
        sealing_key: to which its credentials are sealed, hexadecimal.
        is_attached: another launcher started it, and ends it.
        groups: also those that it has left and other ranks have not.
        pools: that it is a member of.
    """

    node: str
    pid: int
    incarnation: Count
    failed: Reason | None
    sealing_key: SealingKey | None = None
    is_attached: bool = False
    groups: Annotated[list[GroupReport], FailFast(), Field(max_length=_MAX_GROUPS)]
    pools: Annotated[list[PoolReport], FailFast(), Field(max_length=_MAX_GROUPS)] = []


def named_rank(rank: int, node: str) -> str:
    """A rank as messages name it: the content of a TensorError begins with it."""
    return f"rank {rank} ({node})"


def named_ranks(ranks: Iterable[int], nodes: Sequence[str]) -> str:
    """Ranks as messages list them; ``nodes`` is the node of each rank of the group."""
    return ", ".join(named_rank(rank, nodes[rank]) for rank in ranks)


def producer_label(rank: int, node: str) -> str:
    """A rank as its Holds name it: :func:`named_rank`, without the node where that is too long."""
    name = named_rank(rank, node)
    return name if len(name) <= _MAX_LABEL_SIZE else f"rank {rank}"
