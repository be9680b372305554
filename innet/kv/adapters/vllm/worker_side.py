"""The connector in vLLM's worker: loads chunks into the paged cache, and saves them from it."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from innet.errors import KVError
from innet.kv.adapters.engine_pool import Member
from innet.kv.adapters.identity import key_hash
from innet.kv.adapters.lookups import announced_as, get_announced
from innet.kv.adapters.lora import Adapter
from innet.kv.adapters.tensors import block_bytes, bytes_of, tensor_of
from innet.kv.adapters.vllm.cache_identity import (
    CacheIdentity,
    Chunk,
    ChunkPart,
    ConnectorOptions,
    Exclusions,
    LayerSpan,
    Load,
    StepTransfers,
)
from innet.kv.adapters.vllm.chunk_names import ChunkName
from innet.kv.adapters.vllm.loaded_weights import LoadedWeights
from innet.kv.codec import CodecName
from innet.kv.labels import announce, put_label
from innet.kv.names import BlockKey
from innet.kv.pool.network import Contents

LayerCache = torch.Tensor | Sequence[torch.Tensor]
"""A layer's cache as vLLM registers it."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Arriving:
    """An object in flight: the chunk, the blocks of its group, and its contents."""

    chunk: Chunk
    part: ChunkPart
    contents: Future[Contents | None]


@dataclass
class _Loading:
    """A request's chunks in flight.

    Attributes:
        load: the chunks.
        arriving: the objects of each span of layers.
        next_span: the first whose layers are not in the cache.
        failed: places of chunks that did not arrive whole.
    """

    load: Load
    arriving: list[list[_Arriving]]
    next_span: int = 0
    failed: set[int] = field(default_factory=set)

    @property
    def has_arrived(self) -> bool:
        """Whether nothing is in flight."""
        return all(each.contents.done() for objects in self.arriving for each in objects)


class WorkerSide:
    """The connector's state in the worker. Tensors are used in the calling threads, not the pool's.

    Args:
        member: of the pool.
        cache: the engine's.
        options: of the connector.
        blocks: of the engine's cache.
        weights: that this process has loaded.
    """

    def __init__(
        self,
        member: Member,
        cache: CacheIdentity,
        options: ConnectorOptions,
        blocks: int,
        weights: LoadedWeights,
    ) -> None:
        self._member = member
        self._cache = cache
        self._options = options
        self._blocks = blocks
        self._weights = weights
        self._excluded: Exclusions | None = None
        self._excluded_adapters: set[tuple[str, str]] = set()
        self._paged: PagedCache | None = None
        self._span_of = {
            layer: index for index, span in enumerate(cache.spans) for layer in span.layers
        }
        self._between_steps = options.load_between_steps or cache.loads_whole
        self._loading: list[_Loading] = []
        self._failed_blocks: set[int] = set()
        self._computed: set[str] = set()
        self._next_saved = 0
        self._saves: list[Chunk] = []
        self._saving: dict[Future[int], int] = {}
        self._announced: dict[str, list[str]] = {}
        self._labelled: set[str] = set()

    def register(self, caches: Mapping[str, LayerCache], kernels: Mapping[str, str]) -> None:
        """Register the layers' caches, and put the label of this engine's blocks.

        Args:
            caches: by layer.
            kernels: that write them, by layer.

        Raises:
            KVError: they do not match the engine's configuration.
        """
        missing = set(self._span_of) - set(caches)
        if missing:
            raise KVError(f"vLLM registered no cache of {', '.join(sorted(missing))}")
        layers = {name: caches[name] for name in self._span_of}
        self._paged = PagedCache(layers, self._blocks, self._cache.codec)
        orders = {f"{kernels.get(name, '')} {shape}" for name, shape in self._paged.shapes()}
        self._cache.adopt(self._cache.facts | {"caches": "; ".join(sorted(orders))})
        if self._cache.is_first_rank:
            digest, label = self._cache.digest(None), self._cache.label()
            self._submit(announce(self._member.blocks, self._member.tenant, digest, label))

    @property
    def facts(self) -> dict[str, Any]:
        """What the names of this worker's blocks depend on."""
        return self._cache.facts

    def begin_step(self, transfers: StepTransfers) -> None:
        """Begin a step: choose the chunks to save, and announce those that others await."""
        self._next_saved = 0
        self._computed.clear()
        self._saves = self._affordable(transfers.saves)
        self._announce(transfers)

    def start(self, transfers: StepTransfers) -> None:
        """Request all chunks, the first layers of all before the next layers."""
        new = [_Loading(load, []) for load in transfers.loads]
        self._loading += new
        for index in range(len(self._cache.spans)):
            for loading in new:
                loading.arriving.append(self._ask(index, loading.load))

    def wait_for_layer(self, layer: str) -> None:
        """Wait until the layer's chunks are in the cache, or have failed."""
        if layer in self._span_of and not self._between_steps:
            for loading in self._loading:
                self._write_arrived(loading, self._span_of[layer] + 1)

    def save_layer(self, layer: str) -> None:
        """Save the spans of which all layers are computed, after this layer is."""
        self._computed.add(layer)
        end = self._next_saved
        while end < len(self._cache.spans) and self._computed.issuperset(
            self._cache.spans[end].layers
        ):
            end += 1
        self._save_spans(end)

    def finish_step(self) -> None:
        """Save the remaining spans, and finish all loads of this step: all layers are computed."""
        if not self._between_steps:
            self._finish_loads(self._loading)
        self._save_spans(len(self._cache.spans))

    def take_loaded_requests(self) -> tuple[set[str], set[str]]:
        """Requests whose loads have ended, and those of them that vLLM computes from the beginning.

        Each is returned once.
        """
        if not self._between_steps:
            return set(), set()
        arrived = [loading for loading in self._loading if loading.has_arrived]
        self._finish_loads(arrived)
        anew = [loading for loading in arrived if loading.failed and self._cache.loads_whole]
        return {each.load.request_id for each in arrived}, {each.load.request_id for each in anew}

    def take_exclusions(self) -> Exclusions | None:
        """What the scheduler shall leave out from now on; ``None``: as before."""
        excluded, self._excluded = self._excluded, None
        return excluded

    def take_failed_blocks(self) -> set[int]:
        """Blocks that failed to load; each is returned once. None where requests are computed from
        the beginning."""
        failed, self._failed_blocks = self._failed_blocks, set()
        return set() if self._cache.loads_whole else failed

    def wait_until_saved(self) -> None:
        """Wait until all saved chunks have arrived at their homes, or have timed out."""
        wait(self._saving)

    def close(self) -> None:
        """Cancel loads, and wait for saves."""
        self.wait_until_saved()
        for loading in self._loading:
            for objects in loading.arriving:
                for each in objects:
                    each.contents.cancel()
        self._loading.clear()

    def _announce(self, transfers: StepTransfers) -> None:
        """Announce this rank's objects of chunks that will be saved, and withdraw the others."""
        for request, chunks in transfers.announcements.items():
            keys: dict[str, list[BlockKey]] = {}
            for index in range(len(self._cache.spans)):
                for key in (self._cache.key(index, each) for each in chunks):
                    keys.setdefault(announced_as(request, key), []).append(key)
            self._announced[request] = list(keys)
            for name, of_group in keys.items():
                announcing = self._member.blocks.announcements.announce(name, of_group)
                self._member.submit(announcing).add_done_callback(_log_failure)
        for request in transfers.withdrawals:
            for name in self._announced.pop(request, ()):
                self._member.submit(self._withdraw(name))

    async def _withdraw(self, name: str) -> None:
        self._member.blocks.announcements.withdraw(name)

    def _ask(self, span: int, load: Load) -> list[_Arriving]:
        """Request the objects of a span."""
        objects = []
        for chunk in load.chunks:
            if part := chunk.part(self._cache.spans[span].group):
                key = self._described(span, chunk)
                getting = get_announced(self._member.blocks, key, load.announced)
                objects.append(_Arriving(chunk, part, self._member.submit(getting)))
        return objects

    def _finish_loads(self, loads: list[_Loading]) -> None:
        for loading in loads:
            self._write_arrived(loading, len(self._cache.spans))
        self._loading = [loading for loading in self._loading if loading not in loads]

    def _write_arrived(self, loading: _Loading, end: int) -> None:
        """Write the spans before ``end`` to the cache as they arrive."""
        while loading.next_span < end:
            span = self._cache.spans[loading.next_span]
            for each in loading.arriving[loading.next_span]:
                if each.chunk.place in loading.failed:
                    each.contents.cancel()
                    continue
                contents = _result_of(each.contents)
                if self._is_refused(each.chunk.name, is_computed=False):
                    contents = None
                if contents is None or not self._cached.write(span, each.part, contents):
                    loading.failed.add(each.chunk.place)
                    self._failed_blocks.update(each.part.block_ids)
            loading.next_span += 1

    def _save_spans(self, end: int) -> None:
        while self._next_saved < end:
            for chunk in self._saves:
                self._save(self._next_saved, chunk)
            self._next_saved += 1

    def _affordable(self, chunks: list[Chunk]) -> list[Chunk]:
        """All chunks, or none: an incomplete chunk would be found, and fail to load."""
        self._saving = {future: size for future, size in self._saving.items() if not future.done()}
        if chunks and sum(self._saving.values()) > self._options.saving_bytes:
            _log.warning("the network is slower than the engine: %d chunks not saved", len(chunks))
            return []
        return chunks

    def _save(self, span: int, chunk: Chunk) -> None:
        part = chunk.part(self._cache.spans[span].group)
        if part is None or self._is_refused(chunk.name, is_computed=True):
            return
        self._label(chunk.name.adapter)
        contents = self._cached.read(self._cache.spans[span], part)
        key = self._described(span, chunk)
        future = self._member.submit(self._member.blocks.put(key, contents, depth=chunk.place))
        self._saving[future] = contents.nbytes

    def _label(self, adapter: Adapter | None) -> None:
        """Put the label of an adapter whose first chunk is saved."""
        if adapter is None or adapter.identity in self._labelled or not self._cache.is_first_rank:
            return
        self._labelled.add(adapter.identity)
        digest, label = self._cache.digest(adapter), self._cache.label(adapter)
        self._submit(put_label(self._member.blocks, self._member.tenant, digest, label))

    def _submit(self, work: Coroutine[Any, Any, Any]) -> None:
        self._member.submit(work).add_done_callback(_log_failure)

    def _is_refused(self, name: ChunkName, *, is_computed: bool) -> bool:
        """Whether this process has other weights than the scheduler assumes; the scheduler leaves
        these blocks out from the next step on."""
        why = self._weights.refusal(name.adapter, is_computed=is_computed)
        if not why:
            return False
        adapters = self._excluded_adapters
        if name.adapter is not None and not self._weights.replacements.method:
            key = (name.adapter.name, name.adapter.path)
            if key not in adapters:
                _log.warning("a chunk is neither loaded nor saved: %s", why)
            adapters.add(key)
        self._excluded = Exclusions(bool(self._weights.replacements.method), set(adapters))
        return True

    def _described(self, span: int, chunk: Chunk) -> BlockKey:
        """The key of a chunk's object; events of it will have its tokens."""
        key = self._cache.key(span, chunk.name)
        events = self._member.events
        if events is not None and chunk.tokens and not key.family.first_layer:
            parent = None if chunk.parent is None else key_hash(chunk.parent.chunk_hash)

            async def describe() -> None:
                events.describe_block(key, parent, chunk.tokens, chunk.salt)

            self._member.submit(describe())
        return key

    @property
    def _cached(self) -> PagedCache:
        if self._paged is None:
            raise KVError("vLLM loads or saves before it has registered its caches")
        return self._paged


def _log_failure(announcing: Future[Any]) -> None:
    if not announcing.cancelled() and (error := announcing.exception()):
        _log.warning("announcing blocks failed: %s", error)


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
            layer may split blocks into smaller ones that follow each other. Layers with states
            have several tensors each.
        blocks: of the engine.
        codec: of the objects.

    Raises:
        KVError: a layer's cache has another shape.
    """

    def __init__(
        self, layers: Mapping[str, LayerCache], blocks: int, codec: CodecName | None = None
    ) -> None:
        self._codec = codec
        self._layers = {
            name: [
                _by_block(name, each, blocks)
                for each in ([cache] if isinstance(cache, torch.Tensor) else cache)
            ]
            for name, cache in layers.items()
        }

    def shapes(self) -> Iterator[tuple[str, str]]:
        """Each layer, and the shape of its blocks."""
        for name, caches in self._layers.items():
            yield name, " ".join("x".join(map(str, cache.shape[1:])) for cache in caches)

    def read(self, span: LayerSpan, part: ChunkPart) -> Contents:
        """A copy of the blocks in the span's layers, one after the other."""
        return np.concatenate(
            [
                bytes_of(cache[_index(cache, part)], self._codec_of(span))
                for cache in self._caches_of(span)
            ]
        )

    def write(self, span: LayerSpan, part: ChunkPart, contents: Contents) -> bool:
        """Write the part's blocks; ``False``, and nothing is written, if the size differs.

        Args:
            span: the layers of the contents.
            part: the blocks; those before its first one are left out.
            contents: of a whole object.
        """
        blocks = span.group.object_blocks
        caches, codec = self._caches_of(span), self._codec_of(span)
        sizes = [block_bytes(cache[0].numel() * blocks, cache.dtype, codec) for cache in caches]
        if sum(sizes) != contents.nbytes:
            return False
        start = 0
        for cache, size in zip(caches, sizes, strict=True):
            like = cache.new_empty((blocks, *cache.shape[1:]), device="meta")
            whole = tensor_of(contents[start : start + size], like, codec)
            assert whole is not None
            cache[_index(cache, part)] = whole[part.first_block :].to(cache.device)
            start += size
        return True

    def _codec_of(self, span: LayerSpan) -> CodecName | None:
        """States are not quantised: their errors would grow with each token behind them."""
        return None if span.group.has_states else self._codec

    def _caches_of(self, span: LayerSpan) -> list[torch.Tensor]:
        return [cache for name in span.layers for cache in self._layers[name]]


def _index(cache: torch.Tensor, part: ChunkPart) -> torch.Tensor:
    return torch.tensor(part.block_ids, device=cache.device)


def _by_block(name: str, cache: torch.Tensor, blocks: int) -> torch.Tensor:
    if not blocks or cache.shape[0] % blocks:
        raise KVError(
            f"the cache of {name} has the shape {tuple(cache.shape)}, and the engine {blocks} "
            "blocks: the connector does not support this kind of attention"
        )
    by_block: torch.Tensor = torch.unflatten(cache, 0, (blocks, cache.shape[0] // blocks))
    return by_block
