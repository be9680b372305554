"""Hashes of blocks: each stands for the block's tokens and all tokens before it.

The hash is the one that vLLM computes with ``--prefix-caching-hash-algo sha256_cbor``, so that both
give a block the same name::

    root   = SHA-256(CBOR(seed))                        seed: text, vLLM's PYTHONHASHSEED
    hash_i = SHA-256(CBOR([parent, tokens, extra]))     parent: hash_(i-1), or root

The bytes that are hashed are CBOR in its canonical form (RFC 8949, section 4.2.1):

* an array of three, ``0x83``;
* the parent, a byte string of 32: ``0x58 0x20`` and its bytes;
* the block's token ids in an array, each an unsigned integer in its shortest form;
* what else the block depends on: ``0xf6`` (null) for nothing, or an array of texts, integers and
  byte strings. vLLM puts the name of a LoRA adapter here and, in a prompt's first block, the
  request's cache salt.

Only full blocks have a hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

from innet.errors import KVError

HASH_BYTES: Final = 32

Extra = tuple[str | int | bytes, ...]
"""What a block depends on beside its tokens."""

_UNSIGNED, _BYTES, _TEXT, _ARRAY = 0, 2, 3, 4
_NULL = b"\xf6"


def root_hash(seed: str = "0") -> bytes:
    """What stands in place of the first block's parent.

    >>> root_hash("0").hex()[:16]
    '4e1195df020de59e'
    """
    return hashlib.sha256(_encoded(seed)).digest()


def block_hash(parent: bytes, tokens: Sequence[int], extra: Extra = ()) -> bytes:
    """The hash of a block behind the one whose hash is ``parent``.

    Args:
        parent: the hash of the block before, or :func:`root_hash`.
        tokens: ids of the block's tokens.
        extra: what else the block depends on.

    Raises:
        KVError: a token id is negative, or larger than 64 bits.
    """
    encoded = _head(_ARRAY, 3) + _encoded(parent) + _array(tokens)
    return hashlib.sha256(encoded + (_array(extra) if extra else _NULL)).digest()


def chain(
    tokens: Sequence[int], block_tokens: int, *, root: bytes, salt: str = ""
) -> Iterator[bytes]:
    """The hashes of a prompt's full blocks, from the first on.

    Args:
        tokens: ids of the prompt's tokens.
        block_tokens: tokens of a block.
        root: of the chain, see :func:`root_hash`.
        salt: of the request; it is in the first block, and so in the hashes of all.

    Raises:
        KVError: ``block_tokens`` is not at least 1, or a token id is out of range.

    Example:
        >>> [h.hex()[:8] for h in chain(range(9), 4, root=root_hash())]
        ['8d4c7c82', 'ed6fa5d3']
    """
    if block_tokens < 1:
        raise KVError(f"a block has at least one token, not {block_tokens}")
    parent = root
    for end in range(block_tokens, len(tokens) + 1, block_tokens):
        first = end == block_tokens
        parent = block_hash(
            parent, tokens[end - block_tokens : end], (salt,) if first and salt else ()
        )
        yield parent


def _encoded(value: str | int | bytes) -> bytes:
    if isinstance(value, bytes):
        return _head(_BYTES, len(value)) + value
    if isinstance(value, str):
        text = value.encode()
        return _head(_TEXT, len(text)) + text
    return _head(_UNSIGNED, value)


def _array(values: Sequence[str | int | bytes]) -> bytes:
    return _head(_ARRAY, len(values)) + b"".join(map(_encoded, values))


def _head(major: int, argument: int) -> bytes:
    """A data item's first bytes: its major type and its argument in the shortest form."""
    if 0 <= argument < 24:
        return bytes([major << 5 | argument])
    for exponent in range(4):
        if 0 <= argument < 1 << (8 << exponent):
            return bytes([major << 5 | 24 + exponent]) + argument.to_bytes(1 << exponent, "big")
    raise KVError(f"a token id is an integer from 0 to 2^64 - 1; got {argument}")
