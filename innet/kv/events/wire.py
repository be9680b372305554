"""Batches of KV events in the formats that vLLM and SGLang publish: msgpack, one array a batch.

A batch is ``[time, [event, ...], data_parallel_rank]``. An event is a map with its class in
``type``, or, from vLLM 0.23 and SGLang before 0.5.20, an array of its class and its fields in
order. Fields that a decoder does not know are optional in all versions, so maps are read by old and
new consumers. An event that cannot be read is skipped and counted, and the others are used.
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
_MEDIA: Final = {"CPU_PINNED": MEMORY, "DISK": DISK}
"""SGLang's other names of them."""

_STORED_FIELDS: Final = (
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
    "kv_cache_spec_kind",
    "kv_cache_spec_sliding_window",
)
_FIELDS: Final = {
    "BlockStored": _STORED_FIELDS,
    "BlockRemoved": ("block_hashes", "medium", "group_idx"),
}
"""Fields in arrays; SGLang's end with the medium."""

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
_STATE_KIND: Final = "mamba"
_FULL_KIND: Final = "full_attention"
_NO_PREFIX_KINDS: Final = (
    _WINDOW_KIND,
    "sliding_window_mla",
    _STATE_KIND,
    "chunked_local_attention",
    "encoder_only_attention",
    "cross_attention",
)
"""vLLM's kinds of caches whose blocks do not stand for all tokens before them."""


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
        events: all of them that could be read.
        unknown: events of types that this version does not know.
        invalid: events with missing or impossible fields.
    """

    time_s: float
    events: tuple[Event, ...]
    unknown: int = 0
    invalid: int = 0


def encode(batch: Batch) -> bytes:
    """The payload of a message.

    >>> decode(encode(Batch(1.5, (BlocksRemoved((7,)),)))).events
    (BlocksRemoved(hashes=(7,), medium='CPU', group=0),)
    """
    packed = msgpack.packb([batch.time_s, [_document(event) for event in batch.events], 0])
    assert isinstance(packed, bytes)
    return packed


def decode(payload: bytes) -> Batch:
    """The batch of a message, without the events that cannot be read.

    Raises:
        KVError: it is not a batch.
    """
    try:
        time_s, events, *_ = msgpack.unpackb(
            payload, unicode_errors="replace", object_pairs_hook=_map, strict_map_key=False
        )
        if not isinstance(events, list):
            raise TypeError(f"expected a list of events, found {type(events).__name__}")
        time_s = float(time_s)
    except _INVALID as error:
        raise KVError(
            f"a message of {len(payload)} bytes is no batch of KV events ({error!r}): connect to "
            "the events of a pool, of vLLM 0.23 or later, or of SGLang 0.5.15 or later"
        ) from error
    found: list[Event] = []
    unknown = invalid = 0
    for each in events:
        try:
            event = _event(_fields(each))
        except _INVALID:
            invalid += 1
            continue
        if event is None:
            unknown += 1
        else:
            found.append(event)
    return Batch(time_s, tuple(found), unknown, invalid)


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


def _map(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """A map; an empty one if a key is a list or a map, so that only its event is invalid."""
    try:
        return dict(pairs)
    except TypeError:
        return {}


def _fields(event: Any) -> Mapping[str, Any]:
    """An event's fields by name; those of an array have the names of their places."""
    if not isinstance(event, list):
        return event  # type: ignore[no-any-return]
    kind, *values = event
    return {"type": kind, **dict(zip(_FIELDS.get(kind, ()), values, strict=False))}


def _event(document: Mapping[str, Any]) -> Event | None:
    match document["type"]:
        case "BlockStored":
            return _stored_event(document)
        case "BlockRemoved":
            hashes = _hashes(document["block_hashes"])
            return BlocksRemoved(hashes, _medium(document), _group(document))
        case "AllBlocksCleared":
            return AllCleared()
    return None


def _stored_event(document: Mapping[str, Any]) -> BlocksStored:
    hashes, parent = _hashes(document["block_hashes"]), document["parent_block_hash"]
    tokens, window = _tokens(document["token_ids"]), _window(document)
    size = int(document["block_size"]) if tokens else 0
    if window and len(tokens) != size * len(hashes):
        tokens, size = (), 0  # of more blocks than are stored: a window leaves some out
    if size < 0 or len(tokens) != size * len(hashes):
        raise ValueError(f"{len(tokens)} tokens in {len(hashes)} blocks of {size}")
    lora = _adapter(document)
    return BlocksStored(
        hashes,
        None if parent is None else _hash(parent),
        tokens,
        size,
        _medium(document),
        _extra(document, lora, is_first=parent is None),
        lora,
        _group(document),
        window,
    )


def _tokens(values: Sequence[Any]) -> tuple[int, ...]:
    """Token ids. With some kinds of speculative decoding, SGLang publishes each token with the
    next one, which its caches depend on as well."""
    if values and isinstance(values[0], list):
        values = [first for first, _ in values]
    return tuple(array("I", values))


def _adapter(document: Mapping[str, Any]) -> str | None:
    """The adapter's name; a number stands for one that the publisher does not name."""
    name, number = _text(document.get("lora_name")), document.get("lora_id")
    return f"lora_id={int(number)}" if name is None and number is not None else name


def _extra(
    document: Mapping[str, Any], lora: str | None, *, is_first: bool
) -> tuple[Extra | None, ...]:
    """Inputs of each block's hash without the adapter's name, which vLLM puts into all of them."""
    published = document.get("extra_keys") or ()
    extra = tuple(None if each is None else _frozen(each) for each in published)
    if lora is not None:
        extra = tuple(each[1:] or None if each and each[0] == lora else each for each in extra)
    salt = _text(document.get("cache_salt"))
    if salt and is_first and not extra:
        return ((salt,),)  # SGLang's, which it publishes with each block
    return extra if any(each is not None for each in extra) else ()


def _group(document: Mapping[str, Any]) -> int:
    return int(document.get("group_idx") or 0)


def _kind(window: int) -> str:
    if window == STATE_WINDOW:
        return _STATE_KIND
    return _WINDOW_KIND if window else _FULL_KIND


def _window(document: Mapping[str, Any]) -> int:
    """Full attention may have a window, too, where vLLM treats all layers alike."""
    kind = _text(document.get("kv_cache_spec_kind")) or ""
    if kind not in _NO_PREFIX_KINDS:
        return 0
    window = int(document.get("kv_cache_spec_sliding_window") or 0)
    return window if kind.startswith(_WINDOW_KIND) and window > 0 else STATE_WINDOW


def _medium(document: Mapping[str, Any]) -> str | None:
    medium = _text(document.get("medium"))
    return _MEDIA.get(medium, medium) if medium is not None else None


def _hashes(values: Sequence[int | bytes]) -> tuple[int, ...]:
    return tuple(map(_hash, values))


def _hash(value: object) -> int:
    if isinstance(value, bytes):
        return event_hash(value)
    if isinstance(value, int):
        return value
    raise TypeError(f"expected a hash, found {value!r}")


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"expected text, found {value!r}")


def _frozen(value: Sequence[Any]) -> Extra:
    found = tuple(_frozen(each) if isinstance(each, list) else each for each in value)
    hash(found)  # parts of a key are hashable
    return found
