"""Arrays of every type, shape and memory layout, as strategies for Hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

Array = np.ndarray[Any, np.dtype[Any]]

INTEGERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
REDUCIBLE = [
    *INTEGERS,
    *("bool", "float16", "float32", "float64", "complex64", "complex128"),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn),
]
COPIED = [
    *REDUCIBLE,
    *("longdouble", "M8[ns]", "m8[25s]", "S3", "U2", "V5"),
    np.dtype([("a", "<i4"), ("b", ">f8"), ("c", "u1", (2,))]),
]

SHAPES = [(), (1,), (0,), (3, 0), (1, 1), (7,), (2, 3), (5, 1, 4), (700,)]
"""Without axes, without elements, of one element, of several segments."""


def _strided(array: Array) -> Array:
    spread = np.zeros((*array.shape, 3), array.dtype)
    spread[..., 1] = array
    return spread[..., 1]


def _reversed(array: Array) -> Array:
    backwards: Any = (*(slice(None, None, -1) for _ in array.shape), ...)
    copied: Array = array[backwards].copy()
    reversed_again: Array = copied[backwards]
    return reversed_again


def _unaligned(array: Array) -> Array:
    memory = np.zeros(array.nbytes + 1, np.uint8)[1:]
    view = memory.view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def _in_a_file(array: Array) -> Array:
    return np.asarray(array).copy().view(np.memmap)


def _read_only(array: Array) -> Array:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


WRITABLE: dict[str, Callable[[Array], Array]] = {
    "C": lambda array: np.array(array, order="C"),
    "F": lambda array: np.array(array, order="F"),
    "strided": _strided,
    "negative strides": _reversed,
    "unaligned": _unaligned,
    "memmap": _in_a_file,
}
LAYOUTS = {**WRITABLE, "read-only": _read_only}
"""An equal array that lies otherwise in memory, by name."""


def values(dtype: Any, shape: tuple[int, ...], seed: int) -> Any:
    """Small numbers, whose sums and products every type has exactly; bits for what is copied."""
    kind = np.dtype(dtype)
    random = np.random.default_rng(seed)
    if kind.kind in "iufc?" or kind.name.startswith(("bfloat", "float8")):
        return random.integers(0, 3, shape).astype(kind)
    if kind.kind == "U":
        return random.integers(65, 90, shape).astype("u4").view("U1").astype(kind)
    count = int(np.prod(shape)) * kind.itemsize
    bits: Array = np.frombuffer(random.bytes(count), np.uint8).copy()
    return bits.view(kind).reshape(shape)


def shapes() -> st.SearchStrategy[tuple[int, ...]]:
    return st.sampled_from(SHAPES)


def equal_bits(left: Array, right: Array) -> bool:
    """Whether type, shape and all bytes are the same."""
    same = left.dtype == right.dtype and left.shape == right.shape
    return same and np.asarray(left).tobytes() == np.asarray(right).tobytes()
