"""Hashes of blocks: each stands for the block's tokens and all tokens before it.

The hash is the one that vLLM computes with ``--prefix-caching-hash-algo sha256_cbor``, so that both
give a block the same name::

    root   = SHA-256(CBOR(seed))                        seed: text
    hash_i = SHA-256(CBOR([parent, tokens, extra]))     parent: hash_(i-1), or root

The seed is vLLM's ``PYTHONHASHSEED`` or, if that is not set, :data:`DEFAULT_SEED`.

The bytes that are hashed are CBOR in its canonical form (RFC 8949, section 4.2.1):

* an array of three, ``0x83``;
* the parent, a byte string of 32: ``0x58 0x20`` and its bytes;
* the block's token ids in an array, each an unsigned integer in its shortest form;
* its other inputs: ``0xf6`` (null) for none. A prompt's first block has the request's salt here, if
  there is one, as in vLLM: ``[["cache_salt", salt]]``.

Only full blocks have a hash.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from innet.errors import KVError

HASH_BYTES: Final = 32

DEFAULT_SEED: Final = "vllm-none-hash"
"""The seed of vLLM's chains unless another is chosen."""

TokenIds = Sequence[int] | npt.NDArray[np.integer]
"""Ids of tokens: a sequence, or an array of one dimension."""

_UNSIGNED, _BYTES, _TEXT, _ARRAY = 0, 2, 3, 4
_SHORT = 24
"""Smaller arguments are in the first byte itself; larger ones in the next 1, 2, 4 or 8 bytes."""
_NULL = b"\xf6"


def root_hash(seed: str = DEFAULT_SEED) -> bytes:
    """The parent of the first block.

    >>> root_hash("0").hex()[:16]
    '4e1195df020de59e'
    """
    return hashlib.sha256(_text(seed)).digest()


def chain(tokens: TokenIds, block_tokens: int, *, root: bytes, salt: str = "") -> Iterator[bytes]:
    """The hashes of a prompt's full blocks, from the first on.

    Args:
        tokens: ids of the prompt's tokens.
        block_tokens: tokens of a block.
        root: of the chain, see :func:`root_hash`.
        salt: of the request; it is hashed with the first block, and so affects all hashes.

    Raises:
        KVError: ``block_tokens`` is not at least 1, or a token id is out of range.

    Example:
        >>> [h.hex()[:8] for h in chain(range(9), 4, root=root_hash("0"))]
        ['8d4c7c82', 'ed6fa5d3']
    """
    if block_tokens < 1:
        raise KVError(f"a block has at least one token, not {block_tokens}")
    parent = root
    extra = _salt_input(salt) if salt else _NULL
    head = _head(_ARRAY, block_tokens)
    encoded, ends = _encoded_ids(_checked_ids(tokens))
    start = 0
    for end in ends[block_tokens - 1 :: block_tokens].tolist():
        parent = hashlib.sha256(
            _BEFORE_PARENT + parent + head + encoded[start:end] + extra
        ).digest()
        start, extra = end, _NULL
        yield parent


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _head(_TEXT, len(encoded)) + encoded


def _salt_input(salt: str) -> bytes:
    return _head(_ARRAY, 1) + _head(_ARRAY, 2) + _text("cache_salt") + _text(salt)


def count_of(tokens: TokenIds) -> int:
    """How many tokens a prompt has.

    Raises:
        KVError: they are no sequence in one dimension.
    """
    if isinstance(tokens, np.ndarray) and tokens.ndim != 1:
        raise _invalid_ids(f"an array of {tokens.ndim} dimensions")
    if isinstance(tokens, str | bytes | bytearray) or not hasattr(tokens, "__len__"):
        raise _invalid_ids(type(tokens).__name__)
    return len(tokens)


def _invalid_ids(found: str) -> KVError:
    return KVError(
        f"invalid token ids, expected integers from 0 to 2^64 - 1 in one dimension, found {found}"
    )


def _checked_ids(tokens: TokenIds) -> npt.NDArray[np.uint64]:
    """
    Raises:
        KVError: one of them is not a token id.
    """
    if not count_of(tokens):
        return np.empty(0, np.uint64)
    with contextlib.suppress(OverflowError, ValueError):
        ids = np.asarray(tokens)
        if ids.dtype.kind not in "iu" and all(isinstance(token, int) for token in tokens):
            # NumPy makes floating-point numbers of integers on both sides of 2^63.
            ids = np.array(tokens, np.uint64 if min(tokens) >= 0 else np.int64)
        if ids.ndim == 1 and ids.dtype.kind in "iu" and ids.min() >= 0:
            return ids.astype(np.uint64)
    raise _invalid_ids("other values")


def _encoded_ids(ids: npt.NDArray[np.uint64]) -> tuple[bytes, npt.NDArray[np.int64]]:
    """All ids in CBOR one after the other, and where each ends.

    Encoded together, as rows of an array, because a prompt has many.
    """
    rows = np.empty((len(ids), 9), np.uint8)
    lengths = np.ones(len(ids), np.int64)
    rows[:, 0] = ids  # below 24; the others are written over
    least = _SHORT
    for exponent in range(4):
        size = 1 << exponent
        (here,) = np.nonzero(ids >= least)
        big_endian = ids[here].astype(">u8").view(np.uint8).reshape(-1, 8)
        rows[here, 0] = _UNSIGNED << 5 | _SHORT + exponent
        rows[here, 1 : 1 + size] = big_endian[:, 8 - size :]
        lengths[here] = 1 + size
        least = 1 << 8 * size
        if not len(here):
            break
    return rows[np.arange(9) < lengths[:, None]].tobytes(), np.cumsum(lengths)


def _head(major: int, argument: int) -> bytes:
    """A data item's first bytes: its major type and its argument in the shortest form."""
    if argument < _SHORT:
        return bytes([major << 5 | argument])
    exponent = next(each for each in range(4) if argument < 1 << (8 << each))
    return bytes([major << 5 | _SHORT + exponent]) + argument.to_bytes(1 << exponent, "big")


_BEFORE_PARENT: Final = _head(_ARRAY, 3) + _head(_BYTES, HASH_BYTES)
