"""Chunks of prompts: the scheduler's transfer lists, and chunks' bytes in vLLM's paged cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorMetadata

from innet.errors import KVError
from innet.kv.adapters.tensors import bytes_of, tensor_of
from innet.kv.pool.network import Contents


@dataclass(frozen=True)
class Chunk:
    """A chunk of a prompt, and where vLLM has its blocks.

    Attributes:
        chunk_hash: of its last block, and so of all before.
        place: in its prompt, from 0.
        first_block: the first block to transfer, from 0 in the chunk.
        block_ids: of that block and the following ones; not necessarily to the chunk's end.
    """

    chunk_hash: bytes
    place: int
    first_block: int
    block_ids: tuple[int, ...]


@dataclass(frozen=True)
class Load:
    """A request's chunks to load.

    Attributes:
        request_id: of the request.
        chunks: in order.
    """

    request_id: str
    chunks: tuple[Chunk, ...]


@dataclass
class Transfers(KVConnectorMetadata):
    """Transfers of one step.

    Attributes:
        loads: into vLLM's cache, by request.
        saves: out of it, after this step has computed them.
    """

    loads: list[Load] = field(default_factory=list)
    saves: list[Chunk] = field(default_factory=list)


class PagedCache:
    """vLLM's cache: all blocks of each layer.

    Args:
        layers: the layers' caches by name, blocks in the first dimension, with any strides. A
            layer may split blocks into smaller ones that follow each other.
        blocks: of the engine.
        chunk_blocks: blocks of a chunk.

    Raises:
        KVError: a layer's cache has another shape.
    """

    def __init__(self, layers: Mapping[str, torch.Tensor], blocks: int, chunk_blocks: int) -> None:
        self._chunk_blocks = chunk_blocks
        self._layers = {name: _by_block(name, cache, blocks) for name, cache in layers.items()}

    def read(self, layers: Sequence[str], chunk: Chunk) -> Contents:
        """A copy of a whole chunk in these layers, one after the other."""
        return np.concatenate(
            [bytes_of(self._layers[name][self._index(name, chunk)]) for name in layers]
        )

    def write(self, layers: Sequence[str], chunk: Chunk, contents: Contents) -> bool:
        """Write the chunk's blocks; ``False``, and nothing is written, if the size differs.

        Args:
            layers: of the contents.
            chunk: of the blocks; those before its first one are left out.
            contents: of the whole chunk.
        """
        caches = [self._layers[name] for name in layers]
        sizes = [cache[0].numel() * cache.element_size() * self._chunk_blocks for cache in caches]
        if sum(sizes) != contents.nbytes:
            return False
        start = 0
        for name, cache, size in zip(layers, caches, sizes, strict=True):
            like = cache.new_empty((self._chunk_blocks, *cache.shape[1:]), device="meta")
            whole = tensor_of(contents[start : start + size], like)
            assert whole is not None
            end = chunk.first_block + len(chunk.block_ids)
            cache[self._index(name, chunk)] = whole[chunk.first_block : end].to(cache.device)
            start += size
        return True

    def _index(self, layer: str, chunk: Chunk) -> torch.Tensor:
        return torch.tensor(chunk.block_ids, device=self._layers[layer].device)


def _by_block(name: str, cache: torch.Tensor, blocks: int) -> torch.Tensor:
    if not blocks or cache.shape[0] % blocks:
        raise KVError(
            f"the cache of {name} has the shape {tuple(cache.shape)}, and the engine {blocks} "
            "blocks: the connector does not support this kind of attention"
        )
    by_block: torch.Tensor = torch.unflatten(cache, 0, (blocks, cache.shape[0] // blocks))
    return by_block
