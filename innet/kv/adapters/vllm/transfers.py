"""What the scheduler's side tells the worker's."""

from __future__ import annotations

from dataclasses import dataclass, field

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorMetadata


@dataclass(frozen=True)
class Chunk:
    """A chunk of a prompt, and where vLLM has its blocks.

    Attributes:
        chunk_hash: of its last block, and so of all before.
        place: in its prompt, from 0.
        first_block: the first of the chunk's blocks that is meant, from 0 in the chunk.
        block_ids: of that block and those behind it; not necessarily to the chunk's end.
    """

    chunk_hash: bytes
    place: int
    first_block: int
    block_ids: tuple[int, ...]


@dataclass(frozen=True)
class Load:
    """A request's chunks that are to be loaded.

    Attributes:
        request_id: whose they are.
        chunks: in order.
    """

    request_id: str
    chunks: tuple[Chunk, ...]


@dataclass
class Transfers(KVConnectorMetadata):
    """Transfers of one step.

    Attributes:
        loads: into vLLM's cache, by request.
        saves: out of it, when this step has computed them.
    """

    loads: list[Load] = field(default_factory=list)
    saves: list[Chunk] = field(default_factory=list)
