"""Shared by both sides of the connector: options, names of chunks, and transfers of a step."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import vllm
from pydantic import Field
from vllm.config import VllmConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorHandshakeMetadata,
    KVConnectorMetadata,
    KVConnectorWorkerMetadata,
)
from vllm.v1.kv_cache_interface import KVCacheConfig

from innet.errors import KVError
from innet.kv.adapters.engine_pool import AdapterOptions
from innet.kv.adapters.identity import engine_digest, key_hash, model_facts
from innet.kv.adapters.lora import Adapter
from innet.kv.adapters.tensors import coded_order
from innet.kv.adapters.vllm.cache_groups import CacheGroup, cache_groups, natural_order
from innet.kv.adapters.vllm.chunk_names import ChunkName
from innet.kv.labels import MAX_LABEL_TEXT, BlockLabel
from innet.kv.layout import RankPart
from innet.kv.names import BlockFamily, BlockKey


class ConnectorOptions(AdapterOptions):
    """Options of the connector.

    Attributes:
        chunk_tokens: tokens of a chunk, which is looked up, loaded and saved as a whole: a multiple
            of vLLM's block size.
        layers_per_object: layers of a chunk in one object. Computing begins when the first object
            has arrived.
        load_between_steps: whether a request waits for all of its blocks before it is computed,
            while others are computed. By default it is computed at once, and its batch waits for
            each layer.
        saving_bytes: limit of chunks in flight to their homes; chunks beyond it are not saved.
        announced_timeout_s: how long a consumer waits for the blocks of a request that a producer
            announces.
    """

    chunk_tokens: int = Field(default=256, ge=1)
    layers_per_object: int = Field(default=4, ge=1)
    load_between_steps: bool = False
    saving_bytes: int = Field(default=1 << 30, ge=0)
    announced_timeout_s: float = Field(default=30.0, gt=0, allow_inf_nan=False)


_ORDER: Final = "vllm-bhnc"
"""Order in an object: layers, the chunk's blocks, heads, tokens, channels."""

_HASHES: Final = ("sha256", "sha256_cbor")
"""vLLM's collision-resistant hashes of blocks. Names do not depend on them, but what an engine with
another one computes from its own cache may."""


@dataclass(frozen=True)
class LayerSpan:
    """Layers of a group that are in an object together.

    Attributes:
        group: of the layers.
        layers: their names.
        families: of the objects of each tensor-parallel rank, without an adapter.
    """

    group: CacheGroup
    layers: tuple[str, ...]
    families: tuple[BlockFamily, ...]


class CacheIdentity:
    """The part of an engine's configuration that names and shapes of objects depend on.

    Both sides of the connector derive it from the same configuration. Each tensor-parallel rank has
    objects of its heads, and their names have its part; the scheduler knows the names of all ranks.

    Args:
        config: vLLM's.
        cache: vLLM's, of the cache.
        options: of the connector.
        tenant: its component in names.
        has_address: the ranks attach to a standing pool, each for itself.

    Attributes:
        ranks: tensor-parallel ranks of the engine.
        facts: JSON values of all that the digest in names covers, without an adapter.
        chunk_tokens: tokens of a chunk.
        codec: of the objects.
        hash_tokens: tokens of each of vLLM's hashes, which divide the blocks of all groups.
        groups: of the model's layers.
        spans: of all groups, in the order in which a model computes their last layers.

    Raises:
        KVError: the connector does not support this engine.
    """

    def __init__(
        self,
        config: VllmConfig,
        cache: KVCacheConfig,
        options: ConnectorOptions,
        tenant: str,
        *,
        has_address: bool = False,
    ) -> None:
        _require_supported_ranks(config, has_address)
        _require_safe_hash(config)
        _require_lasting_weights(config)
        self.ranks: int = config.parallel_config.tensor_parallel_size
        self.chunk_tokens = options.chunk_tokens
        self.groups = cache_groups(cache, options.chunk_tokens)
        sizes = [group.block_tokens for group in self.groups]
        self.hash_tokens: int = cache.hash_block_size or math.gcd(*sizes)
        self.codec = options.codec
        self._rank = config.parallel_config.rank % self.ranks
        self._config, self._options, self._tenant = config, options, tenant
        self.adopt(_facts(config, self.groups, options))

    def adopt(self, facts: Mapping[str, Any]) -> None:
        """Name objects by these facts from now on.

        The worker adds what it alone knows, and the scheduler adopts the worker's: a model changes
        its configuration in the process that builds it, and kernels depend on the worker's device.
        """
        self.facts = dict(facts)
        self._label = _label(self._config, self.facts, self._options)
        self._digests: dict[str, str] = {}
        digest = engine_digest("vllm", self.facts)
        spans = [span for group in self.groups for span in self._spans_of(group, digest)]
        self.spans = sorted(spans, key=lambda span: natural_order(span.layers[-1]))

    @property
    def loads_whole(self) -> bool:
        """Whether a request is computed from its beginning when a part does not arrive: vLLM cannot
        return to the middle of a prompt with several groups, or without the window before it."""
        return len(self.groups) > 1 or any(group.window_chunks for group in self.groups)

    def key(self, span: int, name: ChunkName) -> BlockKey:
        """The key of this rank's object of a chunk with the layers of a span."""
        return self._key(self.spans[span].families[self._rank], name)

    def dense_keys(self, name: ChunkName) -> list[BlockKey]:
        """The keys by which a chunk is looked up: those of all ranks' objects with the last layers,
        which are saved last, of each group without a sliding window."""
        return self._last_keys(name, lambda group: not group.window_chunks)

    def window_keys(self, name: ChunkName, behind: int) -> list[BlockKey]:
        """:meth:`dense_keys` of the groups whose sliding window covers the chunk that is ``behind``
        chunks before the end."""
        return self._last_keys(name, lambda group: group.window_chunks >= behind)

    def digest(self, adapter: Adapter | None) -> str:
        """The digest in names of an adapter's blocks; ``None``: of the model's own."""
        if adapter is None:
            return self.spans[0].families[0].model_digest
        if adapter.identity not in self._digests:
            facts = self.facts | {"adapter": adapter.identity}
            self._digests[adapter.identity] = engine_digest("vllm", facts)
        return self._digests[adapter.identity]

    def label(self, adapter: Adapter | None = None) -> BlockLabel:
        """What the digest of an adapter's blocks stands for; ``None``: of the model's own."""
        if adapter is None:
            return self._label
        return self._label.model_copy(update={"adapter": adapter.name[:MAX_LABEL_TEXT]})

    @property
    def is_first_rank(self) -> bool:
        """Whether this is the engine's first tensor-parallel rank."""
        return not self._rank

    def _key(self, family: BlockFamily, name: ChunkName) -> BlockKey:
        if name.adapter is not None:
            family = replace(family, model_digest=self.digest(name.adapter))
        return BlockKey(family, key_hash(name.chunk_hash))

    def _last_keys(
        self, name: ChunkName, is_wanted: Callable[[CacheGroup], bool]
    ) -> list[BlockKey]:
        last = {span.group.index: span for span in self.spans}
        return [
            self._key(family, name)
            for span in last.values()
            if is_wanted(span.group)
            for family in span.families
        ]

    def _spans_of(self, group: CacheGroup, digest: str) -> Iterator[LayerSpan]:
        step = self._options.layers_per_object
        order = group.order(coded_order(_ORDER, self.codec), is_only=len(self.groups) == 1)
        layouts = [
            RankPart(tensor_rank=rank, tensor_size=self.ranks).layout(
                order, group.element_type, group.block_tokens
            )
            for rank in range(self.ranks)
        ]
        for first in range(0, len(group.layers), step):
            end = min(first + step, len(group.layers))
            families = (BlockFamily(self._tenant, digest, layout, first, end) for layout in layouts)
            yield LayerSpan(group, group.layers[first:end], tuple(families))


def _require_supported_ranks(config: VllmConfig, has_address: bool) -> None:
    parallel = config.parallel_config
    if parallel.world_size > 1 and not has_address:
        raise KVError(
            f"this engine has {parallel.world_size} workers, and a worker of `innet run` is one "
            "process: let them attach to a standing pool (give address), or start engines of one "
            "worker each, with --tensor-parallel-size 1 and --pipeline-parallel-size 1"
        )
    if parallel.world_size != parallel.tensor_parallel_size:
        raise KVError(
            f"this engine has {parallel.world_size} workers, and the connector names parts of "
            f"tensor parallelism alone ({parallel.tensor_parallel_size}): start it with "
            "--pipeline-parallel-size 1, and without context parallelism"
        )
    if parallel.decode_context_parallel_size > 1:
        raise KVError(
            "decode context parallelism spreads a block's tokens over ranks, which the connector "
            "does not support: start vLLM with --decode-context-parallel-size 1"
        )


def _require_safe_hash(config: VllmConfig) -> None:
    algorithm = config.cache_config.prefix_caching_hash_algo
    if algorithm not in _HASHES:
        raise KVError(
            f"vLLM's hash {algorithm} can collide for different prompts; start it with "
            "--prefix-caching-hash-algo sha256_cbor"
        )


def _require_lasting_weights(config: VllmConfig) -> None:
    """Refuse what changes the meaning of blocks while the engine runs."""
    if getattr(config, "weight_transfer_config", None) is not None:
        raise KVError(
            "a trainer replaces this engine's weights while it serves (--weight-transfer-config), "
            "and blocks of former weights would be wrong: serve without --kv-transfer-config"
        )
    if getattr(config.cache_config, "calculate_kv_scales", False):
        raise KVError(
            "this engine computes the scales of its cache from its first prompt, so its blocks are "
            "wrong elsewhere: omit --calculate-kv-scales, and use scales from the checkpoint"
        )


def _facts(
    config: VllmConfig, groups: list[CacheGroup], options: ConnectorOptions
) -> dict[str, Any]:
    return {
        "vllm": vllm.__version__,
        **settings_facts(config, options.weights),
        "groups": [[repr(group.spec), *group.layers] for group in groups],
        "chunk_tokens": options.chunk_tokens,
    }


def settings_facts(config: VllmConfig, weights: str) -> dict[str, Any]:
    """JSON values of the model and the settings that keys and values depend on, whoever keeps them.

    Args:
        config: vLLM's.
        weights: identity of the model's weights that the user vouches for.

    Raises:
        KVError: a model cannot be identified.
    """
    model, cache = config.model_config, config.cache_config
    facts = {
        **model_facts(model.model, weights),
        "revision": model.revision,
        "configuration": _configuration(model.hf_config),
        "overrides": repr(model.hf_overrides),
        "dtype": str(model.dtype),
        "quantization": str(model.quantization),
        "cache_dtype": str(cache.cache_dtype),
        **_named(model, _MODEL_FACTS),
        **_named(getattr(config, "load_config", None), _LOAD_FACTS),
        **_named(cache, _CACHE_FACTS),
        **_named(getattr(config, "attention_config", None), _ATTENTION_FACTS),
        **_named(getattr(model, "multimodal_config", None), _INPUT_FACTS),
        **_length_facts(model),
    }
    speculative = config.speculative_config
    if speculative is not None and speculative.uses_draft_kv_cache():
        draft = speculative.draft_model_config
        facts["draft"] = {
            "method": speculative.method,
            **model_facts(draft.model, weights),
            "revision": draft.revision,
            "configuration": _configuration(draft.hf_config),
            "dtype": str(draft.dtype),
            "quantization": str(draft.quantization),
            **_named(getattr(speculative, "draft_load_config", None), _LOAD_FACTS),
        }
    return facts


_MODEL_FACTS: Final = (
    "model_weights",  # another source of weights than the model's folder
    "code_revision",
    "model_impl",
    "model_class_overrides",
    "quantization_config",
    "disable_sliding_window",
)
_LOAD_FACTS: Final = (
    "load_format",  # "dummy" does not load the files
    "model_loader_extra_config",
    "ignore_patterns",
)
_CACHE_FACTS: Final = (
    "kv_cache_dtype_skip_layers",
    "kv_sharing_fast_prefill",
    "mamba_cache_dtype",
    "mamba_ssm_cache_dtype",
    "use_replayssm",  # a state may lack its last tokens
    "replayssm_buffer_len",
    "use_kda_recoverssm",
)
_ATTENTION_FACTS: Final = ("backend", "backend_per_kind", "use_non_causal", "indexer_kv_dtype")
_INPUT_FACTS: Final = (  # an image's hash does not cover them
    "mm_processor_kwargs",
    "media_io_kwargs",
    "mm_encoder_attn_dtype",
    "video_pruning_rate",
    "video_pruning_method",
    "mm_device_do_normalize",
)


def _named(config: Any, names: tuple[str, ...]) -> dict[str, str]:
    """Settings that keys and values depend on; those of other versions of vLLM are left out."""
    return {name: str(getattr(config, name)) for name in names if hasattr(config, name)}


_ROTARY_BY_LENGTH: Final = ("longrope", "su", "dynamic")
"""Rotary encodings that vLLM chooses by the longest prompt that it accepts."""


def _length_facts(model: Any) -> dict[str, Any]:
    """The longest prompt, for models whose keys depend on it; what ``auto`` became, beside it."""
    if not _has_rotary_by_length(_configuration(model.hf_config)):
        return {}
    return {"max_model_len": [getattr(model, "original_max_model_len", None), model.max_model_len]}


def _has_rotary_by_length(document: Any) -> bool:
    """Whether a part of a model's configuration names such an encoding."""
    if isinstance(document, list):
        return any(map(_has_rotary_by_length, document))
    if not isinstance(document, dict):
        return False
    kinds = (document.get("rope_type"), document.get("type"))
    return any(kind in _ROTARY_BY_LENGTH for kind in kinds) or any(
        map(_has_rotary_by_length, document.values())
    )


def _label(config: VllmConfig, facts: dict[str, Any], options: ConnectorOptions) -> BlockLabel:
    """Settings by the names that users give them."""
    settings = {
        "vLLM": facts["vllm"],
        "--revision": facts["revision"],
        "--dtype": facts["dtype"],
        "--quantization": facts["quantization"],
        "--kv-cache-dtype": facts["cache_dtype"],
        "--load-format": facts.get("load_format", ""),
        "--hf-overrides": facts["overrides"],
        "--block-size": getattr(config.cache_config, "block_size", ""),
        "--tensor-parallel-size": config.parallel_config.tensor_parallel_size,
        "chunk_tokens": options.chunk_tokens,
        "layers_per_object": options.layers_per_object,
        "codec": options.codec or "",
        "draft model": facts.get("draft", ""),
        "attention kernels": facts.get("caches", ""),
        "--max-model-len": facts.get("max_model_len", ""),
    }
    others = {name: value for name, value in facts.items() if name not in _LABELLED}
    settings["other settings"] = engine_digest("vllm", others)[:16]
    return BlockLabel.of("vllm", config.model_config.model, facts["weights"], settings)


_LABELLED: Final = (
    "vllm", "model", "weights", "revision", "dtype", "quantization", "cache_dtype", "load_format",
    "overrides", "chunk_tokens", "draft", "caches", "max_model_len",
)  # fmt: skip


def _configuration(config: Any) -> dict[str, Any]:
    """A model's configuration without the folder it was read from."""
    document: dict[str, Any] = json.loads(config.to_json_string())
    document.pop("_name_or_path", None)
    return document


@dataclass(frozen=True)
class ChunkPart:
    """Where vLLM has a chunk's blocks of one group.

    Attributes:
        group: its index.
        first_block: the first block to transfer, from 0 in the objects.
        block_ids: of that block and all behind it.
    """

    group: int
    first_block: int
    block_ids: tuple[int, ...]


@dataclass(frozen=True)
class Chunk:
    """A chunk of a prompt, and where vLLM has its blocks.

    Attributes:
        name: of the chunk.
        place: in its prompt, from 0.
        parts: of the groups that have blocks to transfer.
        parent: name of the chunk before, if there is one.
        tokens: of the chunk, for events; empty: they are not published.
        salt: of the prompt, with its first chunk.
    """

    name: ChunkName
    place: int
    parts: tuple[ChunkPart, ...]
    parent: ChunkName | None = None
    tokens: tuple[int, ...] = ()
    salt: str = ""

    def part(self, group: CacheGroup) -> ChunkPart | None:
        """The part of a group, if it has one."""
        return next((part for part in self.parts if part.group == group.index), None)


@dataclass(frozen=True)
class Load:
    """A request's chunks to load.

    Attributes:
        request_id: of the request.
        chunks: in order.
        announced: name of the request for which a producer has announced them.
    """

    request_id: str
    chunks: tuple[Chunk, ...]
    announced: str = ""


@dataclass
class StepTransfers(KVConnectorMetadata):
    """Transfers of one step.

    Attributes:
        loads: into vLLM's cache, by request.
        saves: out of it, after this step has computed them.
        announcements: by request's name, the chunks that will be saved.
        withdrawals: names of requests that will save nothing more.
    """

    loads: list[Load] = field(default_factory=list)
    saves: list[Chunk] = field(default_factory=list)
    announcements: dict[str, list[ChunkName]] = field(default_factory=dict)
    withdrawals: list[str] = field(default_factory=list)


@dataclass
class WorkerFacts(KVConnectorHandshakeMetadata):
    """What the names of a worker's blocks depend on, for the scheduler.

    Attributes:
        facts: as of :class:`CacheIdentity`.
    """

    facts: dict[str, Any]


@dataclass
class Exclusions(KVConnectorWorkerMetadata):
    """What a worker may neither load nor save, for the scheduler.

    Attributes:
        is_everything: the model's weights were replaced.
        adapters: names and paths of adapters with other weights than the scheduler assumes.
    """

    is_everything: bool = False
    adapters: set[tuple[str, str]] = field(default_factory=set)

    def aggregate(self, other: KVConnectorWorkerMetadata) -> KVConnectorWorkerMetadata:
        assert isinstance(other, Exclusions)
        whole = self.is_everything or other.is_everything
        return Exclusions(whole, self.adapters | other.adapters)
