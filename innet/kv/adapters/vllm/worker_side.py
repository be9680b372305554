"""The connector in vLLM's worker: loads chunks into the paged cache, and saves them from it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

import numpy as np
import torch

from innet.errors import KVError
from innet.kv.adapters.engine_pool import Member
from innet.kv.adapters.identity import key_hash
from innet.kv.adapters.lookups import announced_as, get_announced
from innet.kv.adapters.tensors import bytes_of, tensor_of
from innet.kv.adapters.vllm.cache_identity import (
    CacheIdentity,
    Chunk,
    ConnectorOptions,
    Load,
    StepTransfers,
)
from innet.kv.names import BlockKey
from innet.kv.pool.network import Contents

_log = logging.getLogger(__name__)


@dataclass
class _Loading:
    """A request's chunks in flight.

    Attributes:
        load: the chunks.
        arriving: for each range of layers, each chunk's contents.
        next_range: the first whose layers are not in the cache.
        failed: places of chunks that did not arrive whole.
    """

    load: Load
    arriving: list[list[Future[Contents | None]]]
    next_range: int = 0
    failed: set[int] = field(default_factory=set)

    @property
    def has_arrived(self) -> bool:
        """Whether nothing is in flight."""
        return all(future.done() for chunks in self.arriving for future in chunks)


class WorkerSide:
    """The connector's state in the worker. Tensors are used in the calling threads, not the pool's.

    Args:
        member: of the pool.
        cache: the engine's.
        options: of the connector.
        blocks: of the engine's cache.
    """

    def __init__(
        self, member: Member, cache: CacheIdentity, options: ConnectorOptions, blocks: int
    ) -> None:
        self._member = member
        self._cache = cache
        self._options = options
        self._blocks = blocks
        self._paged: PagedCache | None = None
        self._range_of = {
            layer: index for index, layers in enumerate(cache.layer_ranges) for layer in layers
        }
        self._loading: list[_Loading] = []
        self._failed_blocks: set[int] = set()
        self._next_saved_range = 0
        self._saves: list[Chunk] = []
        self._saving: dict[Future[int], int] = {}
        self._announced: dict[str, str] = {}

    def register(self, caches: Mapping[str, torch.Tensor]) -> None:
        """Register the layers' caches.

        Raises:
            KVError: they do not match the engine's configuration.
        """
        missing = set(self._range_of) - set(caches)
        if missing:
            raise KVError(f"vLLM registered no cache of {', '.join(sorted(missing))}")
        own = {name: caches[name] for name in self._range_of}
        self._paged = PagedCache(own, self._blocks, self._cache.chunk_blocks)

    def start(self, transfers: StepTransfers) -> None:
        """Fetch all chunks, first layers first."""
        self._next_saved_range = 0
        self._announce(transfers)
        for load in transfers.loads:
            self._loading.append(_Loading(load, [[] for _ in self._cache.layer_ranges]))
        new = self._loading[len(self._loading) - len(transfers.loads) :]
        for layer_range in range(len(self._cache.layer_ranges)):
            for loading in new:
                announced = loading.load.announced
                loading.arriving[layer_range] = [
                    self._ask(layer_range, chunk, announced) for chunk in loading.load.chunks
                ]

    def wait_for_layer(self, layer: str) -> None:
        """Wait until the layer's chunks are in the cache, or have failed."""
        if layer in self._range_of:
            for loading in self._loading:
                self._write_arrived(loading, self._range_of[layer] + 1)

    def save_layer(self, layer: str, transfers: StepTransfers) -> None:
        """The layer is computed: after the last one of a range, save the range."""
        layer_range = self._range_of.get(layer)
        if layer_range is not None and layer == self._cache.layer_ranges[layer_range][-1]:
            self._save_ranges(transfers, layer_range + 1)

    def finish_step(self, transfers: StepTransfers) -> None:
        """All layers are computed: save the remaining ranges, and end all loads of this step."""
        if not self._options.load_between_steps:
            self._finish_loads(self._loading)
        self._save_ranges(transfers, len(self._cache.layer_ranges))

    def take_loaded_requests(self) -> set[str]:
        """Requests with nothing in flight, each once."""
        if not self._options.load_between_steps:
            return set()
        return self._finish_loads([loading for loading in self._loading if loading.has_arrived])

    def take_failed_blocks(self) -> set[int]:
        """Blocks that failed to load, each once."""
        failed, self._failed_blocks = self._failed_blocks, set()
        return failed

    def wait_until_saved(self) -> None:
        """Wait until all saved chunks have arrived at their homes, or have timed out."""
        wait(self._saving)

    def close(self) -> None:
        """Cancel loads, and wait for saves."""
        self.wait_until_saved()
        for loading in self._loading:
            for chunks in loading.arriving:
                for future in chunks:
                    future.cancel()
        self._loading.clear()

    def _announce(self, transfers: StepTransfers) -> None:
        """Announce this rank's objects of chunks that will be saved, and end what is over."""
        for request, hashes in transfers.announcements.items():
            keys = [
                self._cache.key(layer_range, each)
                for each in hashes
                for layer_range in range(len(self._cache.layer_ranges))
            ]
            if keys:
                name = announced_as(request, keys[0])
                self._announced[request] = name
                future = self._member.submit(self._member.blocks.announcements.announce(name, keys))
                future.add_done_callback(_log_failure)
        for request in transfers.withdrawals:
            if name := self._announced.pop(request, ""):
                self._member.submit(self._withdraw(name))

    async def _withdraw(self, name: str) -> None:
        self._member.blocks.announcements.withdraw(name)

    def _ask(self, layer_range: int, chunk: Chunk, announced: str) -> Future[Contents | None]:
        key = self._described(layer_range, chunk)
        return self._member.submit(get_announced(self._member.blocks, key, announced))

    def _finish_loads(self, loads: list[_Loading]) -> set[str]:
        for loading in loads:
            self._write_arrived(loading, len(self._cache.layer_ranges))
        self._loading = [loading for loading in self._loading if loading not in loads]
        return {loading.load.request_id for loading in loads}

    def _write_arrived(self, loading: _Loading, end_range: int) -> None:
        """Write the ranges before ``end_range`` to the cache as they arrive."""
        while loading.next_range < end_range:
            layer_range = loading.next_range
            layers = self._cache.layer_ranges[layer_range]
            arriving = loading.arriving[layer_range]
            for chunk, future in zip(loading.load.chunks, arriving, strict=True):
                if chunk.place in loading.failed:
                    future.cancel()
                    continue
                contents = _result_of(future)
                if contents is None or not self._cached.write(layers, chunk, contents):
                    loading.failed.add(chunk.place)
                    self._failed_blocks.update(chunk.block_ids)
            loading.next_range += 1

    def _save_ranges(self, transfers: StepTransfers, end_range: int) -> None:
        if self._next_saved_range == 0:
            self._saves = self._affordable(transfers.saves)
        while self._next_saved_range < end_range:
            for chunk in self._saves:
                self._save(self._next_saved_range, chunk)
            self._next_saved_range += 1

    def _affordable(self, chunks: list[Chunk]) -> list[Chunk]:
        """All or none: an incomplete chunk would be found, and fail to load."""
        self._saving = {future: size for future, size in self._saving.items() if not future.done()}
        if chunks and sum(self._saving.values()) > self._options.saving_bytes:
            _log.warning("the network is slower than the engine: %d chunks not saved", len(chunks))
            return []
        return chunks

    def _save(self, layer_range: int, chunk: Chunk) -> None:
        contents = self._cached.read(self._cache.layer_ranges[layer_range], chunk)
        key = self._described(layer_range, chunk)
        future = self._member.submit(self._member.blocks.put(key, contents, depth=chunk.place))
        self._saving[future] = contents.nbytes

    def _described(self, layer_range: int, chunk: Chunk) -> BlockKey:
        """The key of a chunk's object; events of it will have its tokens."""
        key = self._cache.key(layer_range, chunk.chunk_hash)
        events = self._member.events
        if events is not None and chunk.tokens and not layer_range:
            parent = None if chunk.parent is None else key_hash(chunk.parent)

            async def describe() -> None:
                events.describe_block(key, parent, chunk.tokens, chunk.salt)

            self._member.submit(describe())
        return key

    @property
    def _cached(self) -> PagedCache:
        if self._paged is None:
            raise KVError("vLLM loads or saves before it has registered its caches")
        return self._paged


def _log_failure(announcing: Future[int]) -> None:
    if not announcing.cancelled() and (error := announcing.exception()):
        _log.warning("announcing a request failed: %s", error)


def _result_of(arriving: Future[Contents | None]) -> Contents | None:
    try:
        return arriving.result()
    except Exception as error:
        _log.warning("loading a chunk failed: %s", error)
        return None


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
