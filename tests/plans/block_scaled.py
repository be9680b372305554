"""The reference of ``sum.q8``: blocks of 32 numbers with one scale, evaluated with NumPy.

A block is a byte E and 32 signed bytes q; its numbers are ``q * 2**(E - 133)``. E is the smallest
by which the largest magnitude fits into a signed byte after rounding to nearest even. E = 0: all
are zero (E would be below 7). E = 255: the block held NaN, an infinity or what is too large, and
all of it is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK_ELEMENTS = 32
BLOCK_BYTES = 33

_POINT_BITS = 6
_BIAS = 127
_SMALLEST_SCALE = 7
_MARKED = 255

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


def encode(numbers: NDArray[Any]) -> Bytes:
    """float32 ``numbers``, of any number, as ``ceil(n / 32)`` blocks of 33 bytes."""
    blocks = -(-numbers.size // BLOCK_ELEMENTS)
    padded = np.zeros(blocks * BLOCK_ELEMENTS, np.float32)
    padded[: numbers.size] = numbers
    with np.errstate(invalid="ignore"):  # signalling NaN
        values = padded.reshape(blocks, BLOCK_ELEMENTS).astype(np.float64)
    scales = np.array([_scale(block) for block in values], np.int64)
    encoded = np.zeros((blocks, BLOCK_BYTES), np.uint8)
    encoded[:, 0] = scales
    plain = (scales != 0) & (scales != _MARKED)
    steps = np.rint(np.ldexp(values[plain], (_BIAS + _POINT_BITS - scales[plain])[:, None]))
    encoded[plain, 1:] = steps.astype(np.int8).view(np.uint8)
    return encoded.reshape(-1)


def decode(encoded: Bytes, elements: int) -> Floats:
    """The first ``elements`` numbers in ``encoded``."""
    blocks = encoded.reshape(-1, BLOCK_BYTES)
    scales = blocks[:, :1].astype(np.int64)
    numbers = np.ldexp(blocks[:, 1:].view(np.int8).astype(np.float64), scales - _BIAS - _POINT_BITS)
    numbers = np.where(scales < _SMALLEST_SCALE, 0.0, numbers)
    numbers = np.where(scales == _MARKED, np.nan, numbers)
    return numbers.astype(np.float32).reshape(-1)[:elements]


def sum_operands(operands: Sequence[Bytes]) -> Bytes:
    """One reduction: blocks decoded, added from left to right in float32, encoded once."""
    elements = operands[0].size // BLOCK_BYTES * BLOCK_ELEMENTS
    total = decode(operands[0], elements)
    with np.errstate(all="ignore"):
        for operand in operands[1:]:
            total = total + decode(operand, elements)
    return encode(total)


def _scale(block: NDArray[np.float64]) -> int:
    largest = np.abs(block).max()
    if not np.isfinite(largest):
        return _MARKED
    if largest == 0:
        return 0
    exponent = int(np.frexp(largest)[1]) - 1
    if np.rint(np.ldexp(largest, _POINT_BITS - exponent)) == 2 ** (_POINT_BITS + 1):
        exponent += 1
    scale = exponent + _BIAS
    return 0 if scale < _SMALLEST_SCALE else min(scale, _MARKED)
