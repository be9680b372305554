"""The element types that the network reduces, and what it can do with each."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

OPERATIONS = ("sum", "min", "max", "prod", "band", "bor", "bxor")
"""All operations, by the name they have in ``<op>.<type>``."""

_REAL = ("sum", "min", "max", "prod")
_COMPLEX = ("sum", "prod")
_INTEGER = OPERATIONS


@dataclass(frozen=True)
class ElementType:
    """An element type.

    Attributes:
        name: on the wire, in ``<op>.<type>``.
        dtype_name: NumPy's or ml_dtypes' name of the type.
        operations: what it can be reduced with.
        wide: the type in which a node computes before it rounds once, if that is another one.
    """

    name: str
    dtype_name: str
    operations: tuple[str, ...]
    wide: np.dtype[Any] | None = None

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's (or ml_dtypes') type."""
        if self.dtype_name not in _OF_ML_DTYPES:
            return np.dtype(self.dtype_name)
        import ml_dtypes  # imported only where such elements are used

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.dtype_name))
        return dtype


_F32 = np.dtype(np.float32)
_OF_ML_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
_ALL = (
    ElementType("f32", "float32", _REAL),
    ElementType("f64", "float64", _REAL),
    ElementType("f16", "float16", _REAL, _F32),
    ElementType("bf16", "bfloat16", _REAL, _F32),
    ElementType("f8e4m3fn", "float8_e4m3fn", _REAL, _F32),
    ElementType("f8e5m2", "float8_e5m2", _REAL, _F32),
    ElementType("c64", "complex64", _COMPLEX),
    ElementType("c128", "complex128", _COMPLEX),
    ElementType("bool", "bool", _INTEGER),
    *(
        ElementType(f"{letter}{bits}", f"{kind}{bits}", _INTEGER)
        for letter, kind in (("i", "int"), ("u", "uint"))
        for bits in (8, 16, 32, 64)
    ),
)

ELEMENT_TYPES = {element.name: element for element in _ALL}
"""All types, by the name they have on the wire."""

_BY_DTYPE = {element.dtype_name: element for element in _ALL}


@functools.lru_cache(maxsize=256)  # NumPy makes a type's name anew each time
def element_type_of(dtype: np.dtype[Any]) -> ElementType | None:
    """The type of arrays of ``dtype``, in either byte order; ``None`` if they are only copied."""
    return _BY_DTYPE.get(dtype.name)


def reducible_names() -> str:
    """NumPy's names of all types, for messages."""
    return ", ".join(_BY_DTYPE)


def dtype_called(name: str) -> np.dtype[Any]:
    """The type that NumPy, or ml_dtypes, has under a name.

    Raises:
        TypeError: there is none.
    """
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # noqa: F401  (makes bfloat16 and its like known to NumPy by name)

        return np.dtype(name)
