"""Sizes in workload files."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, WithJsonSchema

from innet.quantities import MAX_SIZE_BYTES, Quantity, QuantityError, parse_size_bytes

_BLOCKS: Final = re.compile(r"\s*([0-9]{1,18})\s*blocks?\s*", re.IGNORECASE)
_MEMORY_EXPECTED: Final = "a size such as 8GiB, or a number of blocks such as 10000blocks"


def _positive(value: Quantity) -> int:
    size_bytes = parse_size_bytes(value)
    if size_bytes <= 0:
        raise QuantityError("a size above 0, such as 1MiB", value)
    return size_bytes


PositiveSize = Annotated[
    int,
    BeforeValidator(_positive),
    WithJsonSchema({"type": ["string", "number"], "examples": ["1MiB", 4096]}),
]
"""A whole number of bytes, at least one."""


def parse_memory_bytes(text: str, block_bytes: int) -> int:
    """A size, or a number of blocks, in bytes.

    Raises:
        QuantityError: it is neither, or more than can be counted.

    >>> parse_memory_bytes("10000 blocks", 1 << 20), parse_memory_bytes("2MiB", 1 << 20)
    (10485760000, 2097152)
    """
    blocks = _BLOCKS.fullmatch(text)
    if blocks is None:
        try:
            return parse_size_bytes(text)
        except QuantityError:
            raise QuantityError(_MEMORY_EXPECTED, text) from None
    size_bytes = int(blocks[1]) * block_bytes
    if size_bytes > MAX_SIZE_BYTES:
        raise QuantityError(_MEMORY_EXPECTED, text)
    return size_bytes
