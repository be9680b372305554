"""The keys of a replay of requests in a workload file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from innet.kv.eviction import PolicyName
from innet.kv.prefill import PrefillCost
from innet.lab.simulation.workload.job import JobFields
from innet.lab.simulation.workload.sizes import PositiveSize, parse_memory_bytes
from innet.quantities import format_size
from innet.topology.event_document import Duration, PositiveDuration
from innet.topology.specification import Specification, optional

_DEFAULT = PrefillCost()


class PrefillSpecification(Specification):
    """What computing a prompt's blocks takes: start + tokens · token + pairs · pair."""

    token: Duration = Field(default=_DEFAULT.token_s, description="of each token")
    pair: Duration = Field(
        default=_DEFAULT.pair_s, description="of each pair of a token and one that it attends to"
    )
    start: Duration = Field(default=_DEFAULT.start_s, description="of each prefill")


class KvSpecification(JobFields):
    """Requests of a recorded trace, whose workers share the key-value blocks of their prefixes."""

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
        description="part of it for what each worker itself uses; by default what suits the design",
    )
    switch_share: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="part of it on the switches, as their content stores, where the design has "
        "caches on the way; by default what suits the design. The rest is at homes",
    )
    homes: dict[str, float] = optional(
        "hosts that keep blocks for others, with their weights; by default all workers alike"
    )
    replicas: int = Field(default=1, ge=1, le=16, description="homes of a block")
    policy: PolicyName | None = Field(
        default=None,
        description="what workers and homes drop first; by default what suits the design",
    )
    assign: Literal["round-robin", "prefix"] = Field(
        default="round-robin",
        description="which worker gets a request; prefix: by the hash of its second block, as the "
        "first is often a system prompt",
    )
    time_scale: float = Field(
        default=1.0, ge=0, le=1e6, description="the trace's times are multiplied by this"
    )
    repetitions: int = Field(
        default=1_000_000,
        ge=1,
        le=1_000_000,
        description="timed requests, from the trace's beginning; by default all",
        alias="requests",
    )
    warm_up: int = Field(default=0, ge=0, le=1_000_000, description="requests before, not timed")
    window: int = Field(
        default=8, ge=1, le=1024, description="blocks that a request asks for at once"
    )
    deadline: PositiveDuration = Field(
        default=1.0, description="of a block; then the worker computes it"
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
            raise ValueError("worker-share and switch-share are more than all memory")
        return self

    @model_validator(mode="after")
    def _cache_holds_a_block(self) -> KvSpecification:
        if (why := self.why_no_cache_of(self.cache)) is not None:
            raise ValueError(why)
        return self

    @property
    def cache_blocks(self) -> int | None:
        """Blocks that the cluster has memory for; ``None``: all."""
        return None if self.cache is None else self.cache // self.block

    def why_no_cache_of(self, cache_bytes: int | None) -> str | None:
        """Why the cluster's memory cannot be so large; ``None`` if it can."""
        if cache_bytes is None or cache_bytes >= self.block:
            return None
        return (
            f"a cache of {cache_bytes} bytes holds no block, of which each has {self.block} bytes: "
            f"give all hosts together room for some, such as {format_size(1024 * self.block)}, or "
            "make blocks smaller"
        )
