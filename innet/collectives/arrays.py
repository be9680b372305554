"""NumPy arrays for the packet path: contiguous bytes with the name of a type."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from innet.errors import CollectiveError
from innet.plans.element_types import OPERATIONS, element_type_of, reducible_names

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

_KIND_LETTERS = {"f": "f", "i": "i", "u": "u", "c": "c"}


def reduction_type(array: Array, op: str) -> str:
    """The wire's name of the array's type, such as ``f32``.

    Raises:
        CollectiveError: it is not an array, or there is no such operation, or not for this type.
    """
    require_array(array)
    if op not in OPERATIONS:
        raise CollectiveError(f"unknown reduction {op!r}; known: {', '.join(OPERATIONS)}")
    element = element_type_of(array.dtype)
    if element is None:
        raise CollectiveError(
            f"arrays of {array.dtype} cannot be reduced; types: {reducible_names()}. "
            "Convert with array.astype()."
        )
    if op not in element.operations:
        raise CollectiveError(
            f"arrays of {array.dtype} have no {op!r}; they can be reduced with "
            f"{', '.join(element.operations)}"
        )
    _require_little_endian(array)
    return element.name


def copied_type(array: Array) -> str:
    """The wire's name of a type that is only copied: any type without Python objects.

    Raises:
        CollectiveError: it is not an array, or the elements are not plain memory.
    """
    require_array(array)
    if array.dtype.hasobject:
        raise CollectiveError(
            f"arrays of {array.dtype} hold Python objects; send bytes, such as "
            "numpy.frombuffer(pickle.dumps(x), numpy.uint8)"
        )
    _require_little_endian(array)
    element = element_type_of(array.dtype)
    if element is not None:
        return element.name
    letter = _KIND_LETTERS.get(array.dtype.kind, "v")
    return f"{letter}{array.dtype.itemsize * 8}"


def byte_view(array: Array) -> npt.NDArray[np.uint8]:
    """The memory of a contiguous array as bytes."""
    return array.reshape(-1).view(np.uint8)


def as_input(array: Array) -> Array:
    """``array`` itself when contiguous, else a contiguous copy."""
    return np.ascontiguousarray(array).reshape(np.shape(array))


class Output:
    """The memory of a result: the caller's array, or a copy when that is not contiguous."""

    def __init__(self, array: Array) -> None:
        require_array(array)
        if not array.flags.writeable:
            raise CollectiveError("the result's array is read-only; pass a writable one as out=")
        self._array = array
        direct = array.flags.c_contiguous
        self.memory: Array = array if direct else np.empty(array.shape, array.dtype)

    def finish(self) -> Array:
        """The caller's array, filled."""
        if self.memory is not self._array:
            np.copyto(self._array, self.memory)
        return self._array


def output_like(out: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Output:
    """An output of ``shape`` and ``dtype``, in ``out`` when that is given.

    Raises:
        CollectiveError: ``out`` is not an array, or has another shape or type.
    """
    if out is None:
        return Output(np.empty(shape, dtype))
    require_array(out)
    if out.shape != shape or out.dtype != dtype:
        raise CollectiveError(
            f"out= has shape {out.shape} and type {out.dtype}; the result has {shape} and {dtype}"
        )
    return Output(out)


def split_blocks(array: Array, blocks: int, operation: str) -> tuple[int, ...]:
    """The shape of one of ``blocks`` equal parts of ``array`` along its first axis.

    Raises:
        CollectiveError: it is not an array, or the first axis does not divide.
    """
    require_array(array)
    if array.ndim == 0 or array.shape[0] % blocks != 0:
        raise CollectiveError(
            f"{operation} over {blocks} ranks needs an array whose first axis is a multiple of "
            f"{blocks}; got shape {array.shape}"
        )
    return (array.shape[0] // blocks, *array.shape[1:])


def require_array(value: object) -> None:
    """Refuse other objects than NumPy arrays.

    Raises:
        CollectiveError: a list, a tensor, or whatever else it is.
    """
    if not isinstance(value, (np.ndarray, np.generic)):
        raise CollectiveError(
            f"a {type(value).__name__} is not a NumPy array; pass numpy.asarray(...) of it, as "
            "out= an array for the result"
        )


def _require_little_endian(array: Array) -> None:
    if array.dtype.byteorder == ">":
        raise CollectiveError(
            f"arrays of {array.dtype} are big-endian, the wire is not; convert with "
            "array.astype(array.dtype.newbyteorder('<'))"
        )
