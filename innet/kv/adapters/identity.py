"""Digests of what an engine's blocks depend on, and hashes of its keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from innet.errors import KVError

IDENTITY_VERSION: Final = 1
"""Of the document that is hashed, and of the bytes in blocks."""


def engine_digest(engine: str, facts: Mapping[str, Any]) -> str:
    """The digest that stands for a model in the names of an engine's blocks.

    It is the SHA-256 of a JSON document in ASCII, without white space and with sorted keys: an
    object of ``engine``, ``facts`` and ``version``.

    Args:
        engine: whose blocks they are; those of another have other bytes.
        facts: all that makes a block of the same key another one, as JSON can say it.

    Raises:
        KVError: JSON cannot say it.

    >>> engine_digest("vllm", {"model": "a"}) == engine_digest("vllm", {"model": "b"})
    False
    """
    document = {"engine": engine, "facts": facts, "version": IDENTITY_VERSION}
    try:
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise KVError(f"what {engine}'s blocks depend on must be what JSON can say: {error}") from (
            error
        )
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def key_hash(*parts: str | bytes) -> bytes:
    """The hash of an engine's key: SHA-256 of its parts, each with its length in 8 bytes before it.

    >>> key_hash("ab", "c") == key_hash("a", "bc")
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()
