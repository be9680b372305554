"""Names of chunks, from a prompt's tokens and inputs alone.

vLLM's own hashes depend on ``PYTHONHASHSEED``, on ``--prefix-caching-hash-algo`` and on its
version, and name an adapter by its path. Engines that differ in them would share a pool without a
hit, or load blocks that other weights computed. So the connector makes a hash of its own for each
chunk: the SHA-256 of the hash before it, the tokens, and of each multimodal input in the chunk its
identifier and place, the salt (with the first chunk), and the bytes of embeddings that stand for
tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from vllm.v1.request import Request

from innet.kv.adapters.lora import Adapter
from innet.kv.adapters.tensors import bytes_of
from innet.kv.chunk_hash import chunk_hash


@dataclass(frozen=True, slots=True)
class ChunkName:
    """A chunk of a prompt.

    Attributes:
        chunk_hash: of its tokens and all before.
        adapter: that computes it; ``None``: the model alone.
    """

    chunk_hash: bytes
    adapter: Adapter | None = None


@dataclass
class _Named:
    """The named chunks of a request.

    Attributes:
        adapter: of the request.
        hashes: of its chunks, each with vLLM's hash of the chunk's last block, which differs when
            vLLM has replaced the end of the prompt.
    """

    adapter: Adapter | None
    hashes: list[tuple[bytes, bytes]]


class ChunkNames:
    """The chunks of the requests of a scheduler.

    Args:
        chunk_tokens: tokens of a chunk.
        hash_tokens: tokens of each of vLLM's hashes.
        adapter_of: the adapter of a request with one; ``None``: its blocks may not be shared.
    """

    def __init__(
        self, chunk_tokens: int, hash_tokens: int, adapter_of: Callable[[Request], Adapter | None]
    ) -> None:
        self._chunk_tokens = chunk_tokens
        self._per_chunk = chunk_tokens // hash_tokens
        self._adapter_of = adapter_of
        self._requests: dict[str, _Named | None] = {}

    def of(self, request: Request, tokens: int) -> list[ChunkName]:
        """The chunks that the first ``tokens`` of a request complete; none if they may not be
        shared."""
        if request.request_id not in self._requests:
            self._requests[request.request_id] = self._begin(request)
        named = self._requests[request.request_id]
        if named is None:
            return []
        ends = min(tokens // self._chunk_tokens, len(request.block_hashes) // self._per_chunk)
        for place in range(ends):
            of_vllm = bytes(request.block_hashes[(place + 1) * self._per_chunk - 1])
            if place < len(named.hashes):
                if named.hashes[place][1] == of_vllm:
                    continue
                del named.hashes[place:]
            named.hashes.append((self._hash(request, place, named.hashes), of_vllm))
        return [ChunkName(each, named.adapter) for each, _ in named.hashes[:ends]]

    def forget(self, request_id: str) -> None:
        """Forget a request."""
        self._requests.pop(request_id, None)

    def _begin(self, request: Request) -> _Named | None:
        """The state of a new request; ``None``: its blocks may not be shared."""
        if request.lora_request is None:
            return _Named(None, [])
        adapter = self._adapter_of(request)
        return None if adapter is None else _Named(adapter, [])

    def _hash(self, request: Request, place: int, before: list[tuple[bytes, bytes]]) -> bytes:
        start, end = place * self._chunk_tokens, (place + 1) * self._chunk_tokens
        parent = before[-1][0] if before else b""
        tokens = request.all_token_ids[start:end]
        return chunk_hash(parent, tokens, _other_inputs(request, start, end))


def _other_inputs(request: Request, start: int, end: int) -> Iterator[str | bytes]:
    """Everything but tokens and weights that keys and values of a chunk depend on."""
    if request.cache_salt and not start:
        yield from ("salt", request.cache_salt)
    for feature in request.mm_features or ():
        first = feature.mm_position.offset
        if first < end and first + feature.mm_position.length > start:
            yield from ("input", feature.identifier, str(first - start))
    yield from _embeddings(request, start, end)


def _embeddings(request: Request, start: int, end: int) -> Iterator[str | bytes]:
    embeddings: Any = request.prompt_embeds
    if embeddings is None or start >= embeddings.shape[0]:
        return
    part = embeddings[start:end]
    yield from ("embeddings", str(part.dtype), "x".join(map(str, part.shape)))
    yield bytes_of(part).tobytes()
    if (are_tokens := getattr(request, "prompt_is_token_ids", None)) is not None:
        yield bytes(are_tokens[start:end])
