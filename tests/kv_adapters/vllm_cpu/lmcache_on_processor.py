"""LMCache's connector inside a vLLM that computes on the processor.

LMCache 0.5.6 has connectors to caches on CUDA, XPU, MUSA and HPU alone
(``lmcache.v1.gpu_connector.CreateGPUConnector``). This stand-in copies whole blocks of vLLM's cache
as they are, because the order of tokens within one is that of the processor's kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lmcache.v1.gpu_connector
import torch
from lmcache.v1.gpu_connector.gpu_connectors import GPUConnectorInterface
from lmcache.v1.memory_management import MemoryObj
from lmcache.v1.metadata import LMCacheMetadata
from vllm.distributed.kv_transfer.kv_connector.v1.lmcache_connector import LMCacheConnectorV1

__all__ = ["LMCacheConnectorV1"]


class BlockConnector(GPUConnectorInterface):  # type: ignore[misc]
    """Copies chunks between LMCache's memory and vLLM's cache, of which each has whole blocks."""

    def __init__(self, metadata: LMCacheMetadata) -> None:
        layers, two, _, heads, channels = metadata.kv_shape
        self._layers = layers
        self._two = two
        self._width = heads * channels

    def to_gpu(self, memory_obj: MemoryObj, start: int, end: int, **given: Any) -> None:
        caches, blocks = given["kvcaches"], _blocks(start, end, **given)
        begun = max(0, given.get("vllm_cached_tokens", 0) - start) // _block_tokens(caches)
        for cache, layer in zip(caches, self._chunk(memory_obj, caches, blocks), strict=True):
            cache[blocks[begun:]] = layer[begun:]

    def from_gpu(self, memory_obj: MemoryObj, start: int, end: int, **given: Any) -> None:
        caches, blocks = given["kvcaches"], _blocks(start, end, **given)
        for cache, layer in zip(caches, self._chunk(memory_obj, caches, blocks), strict=True):
            layer.copy_(cache[blocks])

    def batched_to_gpu(
        self,
        memory_objs: Sequence[MemoryObj],
        starts: Sequence[int],
        ends: Sequence[int],
        **given: Any,
    ) -> None:
        for memory, start, end in zip(memory_objs, starts, ends, strict=True):
            self.to_gpu(memory, start, end, **given)

    def batched_from_gpu(
        self,
        memory_objs: Sequence[MemoryObj],
        starts: Sequence[int],
        ends: Sequence[int],
        **given: Any,
    ) -> None:
        for memory, start, end in zip(memory_objs, starts, ends, strict=True):
            self.from_gpu(memory, start, end, **given)

    def get_shape(self, num_tokens: int) -> torch.Size:
        return torch.Size([self._two, self._layers, num_tokens, self._width])

    def _chunk(
        self, memory: MemoryObj, caches: Sequence[torch.Tensor], blocks: torch.Tensor
    ) -> torch.Tensor:
        """A chunk as blocks of each layer."""
        chunk: torch.Tensor = memory.tensor
        return chunk.view(self._layers, len(blocks), *caches[0].shape[1:])


def _block_tokens(caches: Sequence[torch.Tensor]) -> int:
    _, _heads, tokens, _channels = caches[0].shape
    return tokens


def _blocks(start: int, end: int, **given: Any) -> torch.Tensor:
    """The numbers of the blocks that have the tokens."""
    tokens = _block_tokens(given["kvcaches"])
    slots: torch.Tensor = given["slot_mapping"][start:end].view(-1, tokens)
    blocks = slots[:, 0] // tokens
    assert torch.equal(slots, blocks[:, None] * tokens + torch.arange(tokens))
    return blocks


def _connector(_config: Any, metadata: LMCacheMetadata, *_: Any, **__: Any) -> BlockConnector:
    return BlockConnector(metadata)


lmcache.v1.gpu_connector.CreateGPUConnector = _connector
