"""Sizes in workload files."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from innet.quantities import Quantity, QuantityError, parse_size_bytes


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
