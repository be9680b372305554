"""The element types that the network reduces, and what it can do with each."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

OPERATIONS = ("sum", "min", "max", "prod", "band", "bor", "bxor")
"""All operations, by the name they have in ``<op>.<type>``."""

_REAL = ("sum", "min", "max", "prod")
_COMPLEX = ("sum", "prod")
_INTEGER = OPERATIONS


@dataclass(frozen=True, slots=True)
class ElementType:
    """An element type.

    Attributes:
        name: on the wire, in ``<op>.<type>``.
        dtype: NumPy's (or ml_dtypes') type.
        operations: what it can be reduced with.
        wide: the type in which a node computes before it rounds once, if that is another one.
    """

    name: str
    dtype: np.dtype[Any]
    operations: tuple[str, ...]
    wide: np.dtype[Any] | None = None


_F32 = np.dtype(np.float32)
_ALL = (
    ElementType("f32", _F32, _REAL),
    ElementType("f64", np.dtype(np.float64), _REAL),
    ElementType("f16", np.dtype(np.float16), _REAL, _F32),
    ElementType("bf16", np.dtype(ml_dtypes.bfloat16), _REAL, _F32),
    ElementType("f8e4m3fn", np.dtype(ml_dtypes.float8_e4m3fn), _REAL, _F32),
    ElementType("f8e5m2", np.dtype(ml_dtypes.float8_e5m2), _REAL, _F32),
    ElementType("c64", np.dtype(np.complex64), _COMPLEX),
    ElementType("c128", np.dtype(np.complex128), _COMPLEX),
    ElementType("bool", np.dtype(np.bool_), _INTEGER),
    *(
        ElementType(f"{letter}{bits}", np.dtype(f"{kind}{bits}"), _INTEGER)
        for letter, kind in (("i", "int"), ("u", "uint"))
        for bits in (8, 16, 32, 64)
    ),
)

ELEMENT_TYPES = {element.name: element for element in _ALL}
"""All types, by the name they have on the wire."""

_BY_DTYPE = {element.dtype.name: element for element in _ALL}


@functools.lru_cache(maxsize=256)  # NumPy makes a type's name anew each time
def element_type_of(dtype: np.dtype[Any]) -> ElementType | None:
    """The type of arrays of ``dtype``, in either byte order; ``None`` if they are only copied."""
    return _BY_DTYPE.get(dtype.name)


def reducible_names() -> str:
    """NumPy's names of all types, for messages."""
    return ", ".join(_BY_DTYPE)
