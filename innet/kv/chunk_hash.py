"""Hashes of prompts' chunks, as the connector for vLLM names them, and purges find them."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence

from innet.kv.model import digest_of


def chunk_hash(before: bytes, tokens: Sequence[int], others: Iterable[str | bytes] = ()) -> bytes:
    """The hash of a chunk, and so of all before.

    Args:
        before: hash of the chunk before; empty for the first.
        tokens: of the chunk.
        others: the chunk's other inputs: ``"salt"`` and the salt, and so on.
    """
    return digest_of([before, _bytes_of(tokens), *others])


def chunk_hashes(tokens: Sequence[int], chunk_tokens: int, salt: str = "") -> list[bytes]:
    """The hashes of a prompt's whole chunks, without images and embeddings.

    >>> len(chunk_hashes(range(10), 4))
    2
    """
    hashes: list[bytes] = []
    for end in range(chunk_tokens, len(tokens) + 1, chunk_tokens):
        others = ("salt", salt) if salt and not hashes else ()
        before = hashes[-1] if hashes else b""
        hashes.append(chunk_hash(before, tokens[end - chunk_tokens : end], others))
    return hashes


def _bytes_of(tokens: Sequence[int]) -> bytes:
    """8 bytes for each, in little-endian order."""
    numbers = array("Q", tokens)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()
