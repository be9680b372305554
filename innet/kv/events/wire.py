"""Batches of KV events in the format that vLLM publishes: msgpack, one array a batch.

A batch is ``[time, [event, ...], data_parallel_rank]``, an event a map with its class in ``type``
and the fields of ``vllm.distributed.kv_events``. Fields that a decoder does not know are optional
in all versions, so maps are read by old and new consumers.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from innet.errors import KVError
from innet.kv.layout import STATE_WINDOW

Extra = tuple[Any, ...]
"""Inputs of a block's hash beside its tokens, as vLLM publishes them: adapter, images, salt."""

GPU: Final = "GPU"
MEMORY: Final = "CPU"
DISK: Final = "STORAGE"
"""vLLM's names of media."""

_HASH_BITS: Final = 64
_INVALID: Final = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    OverflowError,
    RecursionError,
    msgpack.UnpackException,
)
"""Errors of reading a message that is not a batch."""
_WINDOW_KIND: Final = "sliding_window"
"""Prefix of vLLM's kinds of caches with sliding windows."""
_STATE_KIND: Final = "mamba"
_FULL_KIND: Final = "full_attention"


def event_hash(block_hash: bytes) -> int:
    """A block's hash in events: its last 64 bits, as vLLM publishes hashes by default.

    >>> event_hash(bytes(24) + b"\\0" * 6 + b"\\1\\2")
    258
    """
    return int.from_bytes(block_hash[-_HASH_BITS // 8 :], "big")


@dataclass(frozen=True, slots=True)
class BlocksStored:
    """Blocks that follow each other in a prompt are on a medium.

    Attributes:
        hashes: of the blocks.
        parent: hash of the block before them; ``None``: there is none, or it is not known.
        tokens: of all blocks; empty: the publisher does not know them.
        block_tokens: tokens of a block; 0: not known.
        medium: where they are.
        extra: other inputs of each block's hash; empty: none has any.
        lora: name of the adapter.
        group: of the model's layers.
        window: of a group with sliding windows: such a block is useful only at the end of a prefix;
            0: full attention; ``STATE_WINDOW``: a state of state-space layers.
    """

    hashes: tuple[int, ...]
    parent: int | None = None
    tokens: tuple[int, ...] = ()
    block_tokens: int = 0
    medium: str | None = MEMORY
    extra: tuple[Extra | None, ...] = ()
    lora: str | None = None
    group: int = 0
    window: int = 0


@dataclass(frozen=True, slots=True)
class BlocksRemoved:
    """Blocks are no longer on a medium."""

    hashes: tuple[int, ...]
    medium: str | None = MEMORY
    group: int = 0


@dataclass(frozen=True, slots=True)
class AllCleared:
    """The publisher has no block."""


Event = BlocksStored | BlocksRemoved | AllCleared


@dataclass(frozen=True, slots=True)
class Batch:
    """Events in their order.

    Attributes:
        time_s: Unix time at which they were published.
        events: all of them.
    """

    time_s: float
    events: tuple[Event, ...]


def encode(batch: Batch) -> bytes:
    """The payload of a message.

    >>> decode(encode(Batch(1.5, (BlocksRemoved((7,)),)))).events
    (BlocksRemoved(hashes=(7,), medium='CPU', group=0),)
    """
    packed = msgpack.packb([batch.time_s, [_document(event) for event in batch.events], 0])
    assert isinstance(packed, bytes)
    return packed


def decode(payload: bytes) -> Batch:
    """The batch of a message; events of unknown types are left out.

    Raises:
        KVError: it is not a batch.
    """
    try:
        time_s, events, *_ = msgpack.unpackb(payload)
        found = [_event(event) for event in events]
        return Batch(float(time_s), tuple(event for event in found if event is not None))
    except _INVALID as error:
        raise KVError(
            f"a message of {len(payload)} bytes is no batch of KV events ({error!r}): connect to "
            "the events of a pool, or of vLLM 0.23 or later"
        ) from error


def _document(event: Event) -> dict[str, Any]:
    match event:
        case BlocksStored():
            stored: dict[str, Any] = {
                "type": "BlockStored",
                "block_hashes": event.hashes,
                "parent_block_hash": event.parent,
                "token_ids": event.tokens,
                "block_size": event.block_tokens,
                "lora_id": None,
                "medium": event.medium,
                "lora_name": event.lora,
                "group_idx": event.group,
                "kv_cache_spec_kind": _kind(event.window),
                "locality": "LOCAL",
            }
            if event.window > STATE_WINDOW:
                stored["kv_cache_spec_sliding_window"] = event.window
            return stored | {"extra_keys": event.extra} if event.extra else stored
        case BlocksRemoved():
            return {
                "type": "BlockRemoved",
                "block_hashes": event.hashes,
                "medium": event.medium,
                "group_idx": event.group,
                "locality": "LOCAL",
            }
        case AllCleared():
            return {"type": "AllBlocksCleared"}


def _event(document: Mapping[str, Any]) -> Event | None:
    match document["type"]:
        case "BlockStored":
            parent, extra = document["parent_block_hash"], document.get("extra_keys") or ()
            hashes = _hashes(document["block_hashes"])
            tokens = tuple(array("I", document["token_ids"]))
            size = int(document["block_size"]) if tokens else 0
            if size < 0 or len(tokens) not in (0, size * len(hashes)):
                raise ValueError(f"{len(tokens)} tokens in {len(hashes)} blocks of {size}")
            return BlocksStored(
                hashes,
                None if parent is None else _hash(parent),
                tokens,
                size,
                _text(document.get("medium")),
                tuple(None if each is None else _frozen(each) for each in extra),
                _text(document.get("lora_name")),
                _group(document),
                _window(document),
            )
        case "BlockRemoved":
            hashes = _hashes(document["block_hashes"])
            return BlocksRemoved(hashes, _text(document.get("medium")), _group(document))
        case "AllBlocksCleared":
            return AllCleared()
    return None


def _group(document: Mapping[str, Any]) -> int:
    return int(document.get("group_idx") or 0)


def _kind(window: int) -> str:
    if window == STATE_WINDOW:
        return _STATE_KIND
    return _WINDOW_KIND if window else _FULL_KIND


def _window(document: Mapping[str, Any]) -> int:
    """Full attention may have a window, too, where vLLM treats all layers alike."""
    kind = _text(document.get("kv_cache_spec_kind")) or ""
    if kind == _STATE_KIND:
        return STATE_WINDOW
    window = document.get("kv_cache_spec_sliding_window")
    return int(window or 0) if kind.startswith(_WINDOW_KIND) else 0


def _hashes(values: Sequence[int | bytes]) -> tuple[int, ...]:
    return tuple(map(_hash, values))


def _hash(value: int | bytes) -> int:
    return event_hash(value) if isinstance(value, bytes) else int(value)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"expected text, found {value!r}")


def _frozen(value: Sequence[Any]) -> Extra:
    found = tuple(_frozen(each) if isinstance(each, list) else each for each in value)
    hash(found)  # parts of a key are hashable
    return found
