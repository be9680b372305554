"""Shared by both sides of the connector: options, names of chunks, and transfers of a step."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import vllm
from pydantic import Field
from vllm.config import VllmConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorMetadata
from vllm.v1.kv_cache_interface import KVCacheConfig

from innet.errors import KVError
from innet.kv.adapters.engine_pool import AdapterOptions
from innet.kv.adapters.identity import engine_digest, key_hash, model_facts
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
"""vLLM's collision-resistant hashes of blocks."""


class CacheIdentity:
    """The part of an engine's configuration that names and shapes of objects depend on.

    Both sides of the connector derive it from the same configuration. Each tensor-parallel rank has
    objects of its own heads, whose names tell its part; the scheduler knows those of all ranks.

    Args:
        config: vLLM's.
        cache: vLLM's, of the cache.
        options: of the connector.
        tenant: its component in names.
        has_address: the ranks attach to a standing pool, each for itself.

    Attributes:
        ranks: tensor-parallel ranks of the engine.
        block_tokens: tokens of one of vLLM's blocks.
        chunk_blocks: blocks of a chunk.
        layer_ranges: names of the layers of each range, in the order of the model.

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
        self.ranks: int = config.parallel_config.tensor_parallel_size
        group = _only_group(cache)
        self.block_tokens: int = group.kv_cache_spec.block_size
        if options.chunk_tokens % self.block_tokens:
            raise KVError(
                f"chunk_tokens is {options.chunk_tokens}, which is not a multiple of vLLM's block "
                f"size {self.block_tokens}"
            )
        self.chunk_blocks = options.chunk_tokens // self.block_tokens
        layers = sorted(group.layer_names, key=_natural_order)
        step = options.layers_per_object
        self.layer_ranges = [layers[i : i + step] for i in range(0, len(layers), step)]
        digest = engine_digest("vllm", _facts(config, group.kv_cache_spec, layers, options))
        element_type = str(group.kv_cache_spec.dtype).removeprefix("torch.")

        def families_of(rank: int) -> list[BlockFamily]:
            part = RankPart(tensor_rank=rank, tensor_size=self.ranks)
            layout = part.layout(_ORDER, element_type, self.block_tokens)
            return [
                BlockFamily(tenant, digest, layout, first, min(first + step, len(layers)))
                for first in range(0, len(layers), step)
            ]

        families = [families_of(rank) for rank in range(self.ranks)]
        self._own = families[config.parallel_config.rank % self.ranks]
        self._last_of_ranks = [of_rank[-1] for of_rank in families]

    @property
    def chunk_tokens(self) -> int:
        """Tokens of a chunk."""
        tokens: int = self.chunk_blocks * self.block_tokens
        return tokens

    def key(self, layer_range: int, chunk_hash: bytes) -> BlockKey:
        """The key of this rank's object of a chunk with the layers of a range."""
        return BlockKey(self._own[layer_range], key_hash(chunk_hash))

    def last_keys(self, chunk_hashes: Sequence[bytes]) -> list[BlockKey]:
        """The keys of all ranks' objects with the last layers, chunk by chunk: they are saved
        last."""
        hashes = [key_hash(each) for each in chunk_hashes]
        return [BlockKey(family, each) for each in hashes for family in self._last_of_ranks]


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


def _only_group(cache: KVCacheConfig) -> Any:
    if len(cache.kv_cache_groups) != 1:
        raise KVError(
            f"the model has {len(cache.kv_cache_groups)} kinds of attention caches, and the "
            "connector supports one; start vLLM with --disable-hybrid-kv-cache-manager"
        )
    group = cache.kv_cache_groups[0]
    if cache.hash_block_size not in (None, group.kv_cache_spec.block_size):
        raise KVError(
            f"vLLM hashes blocks of {cache.hash_block_size} tokens and keeps blocks of "
            f"{group.kv_cache_spec.block_size}; omit its --prefix-match-unit"
        )
    return group


def _facts(
    config: VllmConfig, spec: Any, layers: list[str], options: ConnectorOptions
) -> dict[str, Any]:
    model, cache = config.model_config, config.cache_config
    return {
        "vllm": vllm.__version__,
        **model_facts(model.model, options.weights),
        "revision": model.revision,
        "configuration": _configuration(model.hf_config),
        "overrides": repr(model.hf_overrides),
        "dtype": str(model.dtype),
        "quantization": str(model.quantization),
        "cache_dtype": str(cache.cache_dtype),
        "spec": repr(spec),
        "layers": layers,
        "hash": cache.prefix_caching_hash_algo,
    }


def _configuration(config: Any) -> dict[str, Any]:
    """A model's configuration without the folder it was read from."""
    document: dict[str, Any] = json.loads(config.to_json_string())
    document.pop("_name_or_path", None)
    return document


def _natural_order(layer: str) -> list[tuple[int, str]]:
    """Sorts ``layers.10`` after ``layers.9``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", layer)]


@dataclass(frozen=True)
class Chunk:
    """A chunk of a prompt, and where vLLM has its blocks.

    Attributes:
        chunk_hash: of its last block, and so of all before.
        place: in its prompt, from 0.
        first_block: the first block to transfer, from 0 in the chunk.
        block_ids: of that block and the following ones; not necessarily to the chunk's end.
        parent: hash of the chunk before, if there is one.
        tokens: of the chunk, for events; empty: they are not published.
        salt: of the prompt, with its first chunk.
    """

    chunk_hash: bytes
    place: int
    first_block: int
    block_ids: tuple[int, ...]
    parent: bytes | None = None
    tokens: tuple[int, ...] = ()
    salt: str = ""


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
        announcements: by request's name, the hashes of the chunks that will be saved.
        withdrawals: names of requests that will save nothing more.
    """

    loads: list[Load] = field(default_factory=list)
    saves: list[Chunk] = field(default_factory=list)
    announcements: dict[str, list[bytes]] = field(default_factory=dict)
    withdrawals: list[str] = field(default_factory=list)
