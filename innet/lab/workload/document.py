"""The workload file: its keys, their types and their meaning, and the JSON schema."""

from __future__ import annotations

import math
import random
import re
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import (
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from innet.kv.eviction import PolicyName
from innet.kv.prefill import PrefillCost
from innet.quantities import (
    MAX_SIZE_BYTES,
    Quantity,
    QuantityError,
    counted,
    format_size,
    parse_rate_bps,
    parse_size_bytes,
)
from innet.topology.document import (
    SCHEMA_DIALECT,
    Duration,
    EventSpecification,
    PositiveDuration,
    texts_of,
    texts_schema,
)
from innet.topology.names import NAME_EXPECTED, NodeName
from innet.topology.specification import Specification, optional

_BLOCKS: Final = re.compile(r"\s*([0-9]{1,18})\s*blocks?\s*", re.IGNORECASE)
_MEMORY_EXPECTED: Final = "a size such as 8GiB, or a number of blocks such as 10000blocks"


def _positive_size(value: Quantity) -> int:
    size_bytes = parse_size_bytes(value)
    if size_bytes <= 0:
        raise QuantityError("a size above 0, such as 1MiB", value)
    return size_bytes


PositiveSize = Annotated[
    int,
    BeforeValidator(_positive_size),
    WithJsonSchema({"type": ["string", "number"], "examples": ["1MiB", 4096]}),
]
"""A whole number of bytes, at least one."""


def parse_memory_bytes(text: str, block_bytes: int) -> int:
    """A size, or a number of blocks, in bytes.

    Raises:
        QuantityError: it is neither, or too large.

    >>> parse_memory_bytes("10000 blocks", 1 << 20), parse_memory_bytes("2MiB", 1 << 20)
    (10485760000, 2097152)
    """
    blocks = _BLOCKS.fullmatch(text)
    if blocks is None:
        try:
            return parse_size_bytes(text)
        except QuantityError:
            raise QuantityError(_MEMORY_EXPECTED, text) from None
    size_bytes = int(blocks[1]) * block_bytes
    if size_bytes > MAX_SIZE_BYTES:
        raise QuantityError(_MEMORY_EXPECTED, text)
    return size_bytes


class JobFields(Specification):
    """Where and when a job runs, and how its groups communicate."""

    hosts: list[str] = optional("the host of each rank, in order; by default all hosts")
    algorithm: str = optional(
        "of its group, such as inc or tcp-ring; by default the one being compared"
    )
    start: Duration = Field(default=0.0, description="virtual time at which it begins")
    timeout: PositiveDuration = optional(
        "deadline of each operation; by default 15 times its bound above the setting "
        "collectives.timeout_s"
    )


ComputeDistribution = Literal["constant", "uniform", "exponential", "lognormal"]


class ComputeSpecification(Specification):
    """Times of computing: those of the workload, times a number drawn for each rank and step.

    The number is 1 in the mean, whatever the distribution:

    * ``constant``: always 1;
    * ``uniform``: between 1 - spread and 1 + spread;
    * ``exponential``: 1 - spread, and an exponential part with the mean ``spread``;
    * ``lognormal``: its logarithm is normal with the standard deviation ``spread``.
    """

    distribution: ComputeDistribution = Field(
        default="constant", description="of each rank and step"
    )
    spread: float = Field(default=0.1, ge=0, le=1, description="how wide; 0 is constant")
    slow: dict[str, float] = optional("hosts whose computing takes so many times as long")

    def factor(self, host: str, rank: int, step: int, seed: int) -> float:
        """The factor of all times of a step on a rank."""
        slow = (self.slow or {}).get(host, 1.0)
        # Each rank and step has its own source, so that ranks do not affect each other's numbers.
        source = random.Random(f"{seed}/compute/{rank}/{step}")
        return slow * self._drawn(source)

    def _drawn(self, source: random.Random) -> float:
        if self.distribution == "uniform":
            return 1.0 + self.spread * (2.0 * source.random() - 1.0)
        if self.distribution == "exponential":
            return 1.0 - self.spread + self.spread * source.expovariate(1.0)
        if self.distribution == "lognormal":
            return math.exp(self.spread * source.gauss(0.0, 1.0) - self.spread**2 / 2)
        return 1.0


FlowDistribution = Literal["constant", "exponential", "pareto"]
"""Distribution of the sizes of background flows."""

ANY_HOST = "any host"


def _flow_hosts(value: Any) -> tuple[str, ...]:
    return tuple(texts_of(value, f'a host such as h0, a list of hosts, or "{ANY_HOST}"'))


def _flow_rate(value: Quantity) -> float:
    rate_bps = parse_rate_bps(value)
    if rate_bps <= 0:
        raise QuantityError("a rate above 0, such as 300mbit", value)
    return rate_bps


FlowHosts = Annotated[tuple[str, ...], BeforeValidator(_flow_hosts), texts_schema("h0", ANY_HOST)]


class BackgroundSpecification(Specification):
    """TCP flows that begin at random times and share the links with the jobs.

    Sizes of flows have the mean ``size``: ``constant``, ``exponential``, or ``pareto`` with the
    shape 1.5, where few large flows carry most bytes.
    """

    source: FlowHosts = Field(alias="from", description="senders; one is drawn for each flow")
    to: FlowHosts = Field(description="receivers; one is drawn for each flow")
    rate: Annotated[
        float,
        BeforeValidator(_flow_rate),
        WithJsonSchema({"type": "string", "examples": ["300mbit"]}),
    ] = Field(description="mean rate offered by all flows together")
    size: PositiveSize = Field(default=1 << 20, description="mean size of a flow")
    distribution: FlowDistribution = Field(default="exponential", description="of sizes")
    congestion: Literal["cubic", "reno"] = Field(default="cubic", description="control, of TCP")
    at: Duration = Field(default=0.0, description="virtual time of the first flow")
    until: Duration = optional("virtual time after which no flow begins")


_DEFAULT = PrefillCost()


class PrefillSpecification(Specification):
    """Time of computing a prompt's blocks: start + tokens · token + pairs · pair."""

    token: Duration = Field(default=_DEFAULT.token_s, description="of each token")
    pair: Duration = Field(
        default=_DEFAULT.pair_s, description="of each pair of a token and one to which it attends"
    )
    start: Duration = Field(default=_DEFAULT.start_s, description="of each prefill")


class KvSpecification(JobFields):
    """Requests of a recorded trace; workers share the key-value blocks of their prefixes."""

    kind: Literal["kv"]
    trace: str = Field(description="Mooncake's .jsonl or Azure's .csv, beside this file")
    block: PositiveSize = Field(default=2 << 20, description="bytes of a block of 512 tokens")
    cache: PositiveSize = optional(
        "memory for blocks in the whole cluster, such as 8GiB or 10000blocks; by default unlimited"
    )
    worker_share: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="share of the workers, for their own blocks; by default that of the "
        "design. In the design network, the shares of a host are one store",
    )
    switch_share: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="share of the switches' content stores, if the design has caches on the "
        "path; by default that of the design. Homes have the rest",
    )
    homes: dict[str, float] = optional(
        "hosts that keep blocks for other hosts, with weights; by default all workers, equally"
    )
    replicas: int = Field(default=1, ge=1, le=16, description="homes of a block")
    policy: PolicyName | None = Field(
        default=None,
        description="eviction policy of workers and homes; by default that of the design",
    )
    assign: Literal["round-robin", "prefix"] = Field(
        default="round-robin",
        description="of requests to workers; prefix: by the hash of the second block, because the "
        "first is often a system prompt",
    )
    time_scale: float = Field(default=1.0, ge=0, le=1e6, description="factor of the trace's times")
    repetitions: int = Field(
        default=1_000_000,
        ge=1,
        le=1_000_000,
        description="timed requests, from the trace's beginning; by default all",
        alias="requests",
    )
    warm_up: int = Field(default=0, ge=0, le=1_000_000, description="requests before, not timed")
    window: int = Field(
        default=8, ge=1, le=1024, description="blocks that a request fetches at once"
    )
    deadline: PositiveDuration = Field(
        default=1.0, description="of fetching a block; after it, the worker computes the block"
    )
    prefill: PrefillSpecification = PrefillSpecification()

    @field_validator("cache", mode="before")
    @classmethod
    def _in_bytes(cls, cache: object, info: ValidationInfo) -> object:
        block_bytes = info.data.get("block")
        if block_bytes is None or not isinstance(cache, str):
            return cache
        return parse_memory_bytes(cache, block_bytes)

    @model_validator(mode="after")
    def _shares_within_one(self) -> KvSpecification:
        if (self.worker_share or 0.0) + (self.switch_share or 0.0) > 1:
            raise ValueError("worker-share and switch-share add up to more than all memory")
        return self

    @model_validator(mode="after")
    def _cache_holds_a_block(self) -> KvSpecification:
        if (why := self.why_no_cache_of(self.cache)) is not None:
            raise ValueError(why)
        return self

    @property
    def cache_blocks(self) -> int | None:
        """Capacity of the cluster in blocks; ``None``: unlimited."""
        return None if self.cache is None else self.cache // self.block

    def why_no_cache_of(self, cache_bytes: int | None) -> str | None:
        """Why the cluster's memory cannot have this size; ``None`` if it can."""
        if cache_bytes is None or cache_bytes >= self.block:
            return None
        return (
            f"a cache of {counted(cache_bytes, 'byte')} holds no block of {self.block} bytes: "
            f"give the cluster more memory, such as {format_size(1024 * self.block)}, or "
            "make blocks smaller"
        )


CollectiveName = Literal[
    "allreduce",
    "reduce",
    "reduce-scatter",
    "allgather",
    "broadcast",
    "gather",
    "scatter",
    "alltoall",
    "barrier",
]
COLLECTIVES: tuple[str, ...] = get_args(CollectiveName)

_ELEMENT_BYTES = 4


def _whole_elements(value: Quantity) -> int:
    size_bytes = parse_size_bytes(value)
    if size_bytes <= 0 or size_bytes % _ELEMENT_BYTES:
        raise QuantityError("a positive multiple of 4 bytes, such as 16MiB", value)
    return size_bytes


TensorSize = Annotated[
    int,
    BeforeValidator(_whole_elements),
    WithJsonSchema({"type": ["string", "number"], "examples": ["16MiB", 4096]}),
]


class CollectiveSpecification(JobFields):
    """A repeated collective; all ranks begin each operation together."""

    kind: Literal["collective"]
    operation: CollectiveName = Field(description="the collective")
    size: TensorSize = Field(
        default=_ELEMENT_BYTES, description="of each rank's contribution, float32"
    )
    repetitions: int = Field(default=3, ge=1, le=1_000_000, description="timed operations")
    warm_up: int = Field(default=1, ge=0, le=1000, description="operations before, not timed")
    pause: Duration = Field(default=0.0, description="between two operations")
    root: int = Field(default=0, ge=0, description="rank of the root, in collectives with one")


class LayerSpecification(Specification):
    """A layer of a model."""

    name: str = Field(default="", description="for people")
    forward: Duration = Field(default=0.0, description="computing in the forward pass")
    backward: Duration = Field(default=0.0, description="computing in the backward pass")
    gradient: Annotated[
        int,
        BeforeValidator(parse_size_bytes),
        WithJsonSchema({"type": ["string", "number"], "examples": ["4MiB", 0]}),
    ] = Field(default=0, description="bytes of its gradients, float32")


class TrainingSpecification(JobFields):
    """Data-parallel training: forward, backward, and the sums of the gradients in buckets."""

    kind: Literal["training"]
    layers: list[LayerSpecification] = optional("in the order of the forward pass", min_length=1)
    layers_file: str = optional(
        "CSV with the header layer,forward_s,backward_s,gradient_bytes, beside this file"
    )
    repetitions: int = Field(
        default=3, ge=1, le=1_000_000, description="timed steps", alias="steps"
    )
    warm_up: int = Field(default=1, ge=0, le=1000, description="steps before, not timed")
    bucket: TensorSize = Field(
        default=25 << 20, description="gradients summed together, as DDP does"
    )
    first_bucket: TensorSize = Field(
        default=1 << 20, description="size of the first bucket, smaller as in DDP"
    )
    overlap: bool = Field(default=True, description="sums run during backward; otherwise after it")
    update: Duration = Field(default=0.0, description="the optimiser, at the end of a step")
    compute: ComputeSpecification = ComputeSpecification()

    @model_validator(mode="after")
    def _layers_once(self) -> TrainingSpecification:
        if ("layers" in self.model_fields_set) == ("layers_file" in self.model_fields_set):
            raise ValueError("expected either 'layers' or 'layers-file'")
        return self


class AstraSimSpecification(JobFields):
    """A training loop from a text workload of ASTRA-sim."""

    kind: Literal["astra-sim"]
    file: str = Field(description="the text workload, beside this file")
    repetitions: int = Field(
        default=1, ge=1, le=1_000_000, description="timed passes of the loop", alias="steps"
    )
    warm_up: int = Field(default=0, ge=0, le=1000, description="passes before, not timed")
    cycle: PositiveDuration = Field(default=1e-9, description="duration of a cycle of the file")
    model_parallel: int = optional(
        "ranks of a model-parallel group, where the file is hybrid and does not say", ge=1
    )
    compute: ComputeSpecification = ComputeSpecification()


JobSpecification = Annotated[
    CollectiveSpecification | TrainingSpecification | AstraSimSpecification | KvSpecification,
    Field(discriminator="kind"),
]


class WorkloadDocument(Specification):
    """The jobs on a simulated network, with events and background traffic."""

    name: NodeName = Field(description=NAME_EXPECTED)
    jobs: dict[NodeName, JobSpecification] = Field(
        min_length=1, description="groups of ranks, by name; all run at the same time"
    )
    background: list[BackgroundSpecification] = Field(
        default_factory=list, description="TCP traffic beside the jobs"
    )
    events: list[EventSpecification] = Field(default_factory=list, description="of nodes and links")


def json_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a workload file."""
    schema = WorkloadDocument.model_json_schema()
    return {"$schema": SCHEMA_DIALECT, **schema, "title": "innet workload"}
