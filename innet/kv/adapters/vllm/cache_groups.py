"""The groups of layers in vLLM's cache: each has its own blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from vllm.config import VllmConfig
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    MambaSpec,
    SlidingWindowSpec,
)

from innet.errors import KVError
from innet.kv.layout import STATE_WINDOW, group_order


@dataclass(frozen=True)
class CacheGroup:
    """Layers whose blocks vLLM allocates together.

    Attributes:
        index: vLLM's number of the group.
        spec: vLLM's, of the layers' caches.
        layers: their names, in the order of the model.
        chunk_blocks: blocks of a chunk.
        object_blocks: the last blocks of a chunk that its objects have: all, or with a sliding
            window those that the tokens behind the chunk attend to.
        window_chunks: with a sliding window, the last chunks that the tokens behind them attend
            to; 0: all chunks. A state is that of the last chunk.
        has_states: of state-space layers: a block is the state behind its last token.
    """

    index: int
    spec: Any
    layers: tuple[str, ...]
    chunk_blocks: int
    object_blocks: int
    window_chunks: int
    has_states: bool = False

    @property
    def block_tokens(self) -> int:
        """Tokens of one of vLLM's blocks."""
        tokens: int = self.spec.block_size
        return tokens

    @property
    def element_type(self) -> str:
        """Type of the cache's elements; a state's are in the digest."""
        return "state" if self.has_states else str(self.spec.dtype).removeprefix("torch.")

    def order(self, order: str, *, is_only: bool) -> str:
        """The order of dimensions in the layout: it distinguishes groups.

        Args:
            order: of all groups.
            is_only: the model has no other group.
        """
        if self.has_states:
            window = STATE_WINDOW
        else:
            window = self.spec.sliding_window if self.window_chunks else 0
        return order if is_only and not window else group_order(order, self.index, window)


def cache_groups(cache: KVCacheConfig, chunk_tokens: int) -> list[CacheGroup]:
    """The groups of a model.

    Raises:
        KVError: the connector does not support one of them.
    """
    groups = [
        _group(index, group, chunk_tokens) for index, group in enumerate(cache.kv_cache_groups)
    ]
    sizes = {group.block_tokens for group in groups}
    has_states = any(group.has_states for group in groups)
    if has_states and (len(sizes) > 1 or cache.hash_block_size not in (None, *sizes)):
        raise KVError(
            f"vLLM hashes blocks of {cache.hash_block_size} tokens and keeps blocks of "
            f"{', '.join(map(str, sorted(sizes)))} beside states, and the connector supports one "
            "size with states; omit its --prefix-match-unit and --block-size, or serve this model "
            "without the connector"
        )
    return groups


def _group(index: int, group: Any, chunk_tokens: int) -> CacheGroup:
    spec = group.kv_cache_spec
    has_states = isinstance(spec, MambaSpec)
    if not isinstance(spec, FullAttentionSpec | SlidingWindowSpec | MambaSpec):
        raise KVError(
            f"the connector keeps caches of full attention, sliding windows and state spaces, and "
            f"the layer {group.layer_names[0]} has a {type(spec).__name__}: serve this model "
            "without --kv-transfer-config"
        )
    if has_states and (spec.mamba_cache_mode != "align" or spec.num_speculative_blocks):
        raise KVError(
            f"the layer {group.layer_names[0]} keeps states, which the connector saves at the ends "
            "of vLLM's blocks: start vLLM with --enable-prefix-caching --mamba-cache-mode align, "
            "and without --speculative-config"
        )
    if chunk_tokens % spec.block_size:
        raise KVError(
            f"chunk_tokens is {chunk_tokens}, which is not a multiple of vLLM's block size "
            f"{spec.block_size}"
        )
    chunk_blocks = chunk_tokens // spec.block_size
    window_blocks = 0
    if isinstance(spec, SlidingWindowSpec):
        attended = spec.sliding_window - 1 + spec.extra_retained_tokens
        window_blocks = max(1, -(-attended // spec.block_size))
    if has_states:
        window_blocks = 1
    return CacheGroup(
        index=index,
        spec=spec,
        layers=tuple(sorted(group.layer_names, key=natural_order)),
        chunk_blocks=chunk_blocks,
        object_blocks=min(chunk_blocks, window_blocks or chunk_blocks),
        window_chunks=-(-window_blocks // chunk_blocks),
        has_states=has_states,
    )


def attention_kernels(config: VllmConfig) -> dict[str, str]:
    """By layer, the kernel that writes its cache: each orders the elements of a block in its own
    way, and vLLM chooses it by the device; on processors, by their instructions as well."""
    layers = config.compilation_config.static_forward_context
    return {
        name: f"{layer.get_attn_backend().get_name()} {getattr(layer, 'isa', '')}".strip()
        for name, layer in layers.items()
        if hasattr(layer, "get_attn_backend")
    }


def natural_order(layer: str) -> list[tuple[int, str]]:
    """Sorts ``layers.10`` after ``layers.9``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", layer)]
