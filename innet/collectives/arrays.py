"""NumPy arrays for the packet path: contiguous bytes with the name of a type."""

from __future__ import annotations

import hashlib
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

    Types whose size does not say what they mean (fields, units of time, text) have a digest of
    their description, so that ranks with different ones do not take each other's bytes.

    Raises:
        CollectiveError: it is not an array, or the elements are not plain memory.
    """
    _require_memory(array)
    if array.dtype.itemsize == 0:
        raise CollectiveError(
            f"elements of {array.dtype} have no bytes to send; give the array a type with a size"
        )
    _require_little_endian(array)
    element = element_type_of(array.dtype)
    if element is not None:
        return element.name
    kind, names = array.dtype.kind, array.dtype.names
    if kind in _KIND_LETTERS or (kind == "V" and names is None):
        return f"{_KIND_LETTERS.get(kind, 'v')}{array.dtype.itemsize * 8}"
    described = repr(array.dtype.descr) if names else array.dtype.str
    return f"x{hashlib.blake2s(described.encode(), digest_size=4).hexdigest()[:7]}"


def shown_type(dtype: np.dtype[Any]) -> str:
    """A type for people: ``f32`` and the like, or NumPy's description of a type that is copied."""
    element = element_type_of(dtype)
    return str(dtype) if element is None else element.name


def byte_view(array: Array) -> npt.NDArray[np.uint8]:
    """The bytes of a contiguous array that is read; of a NumPy scalar, a copy of them."""
    return array.reshape(-1).view(np.uint8)


def landing_bytes(memory: Array) -> npt.NDArray[np.uint8]:
    """The bytes of ``memory``, for data that arrives in it.

    Raises:
        TypeError: it is a NumPy scalar, or not contiguous: a copy would receive the data, and the
            caller's memory would stay as it was.
    """
    if not isinstance(memory, np.ndarray) or not memory.flags.c_contiguous:
        raise TypeError(f"data cannot land in a {type(memory).__name__} that is not contiguous")
    return byte_view(memory)


def as_input(array: Array) -> Array:
    """``array`` itself when contiguous, else a contiguous copy."""
    return np.ascontiguousarray(array).reshape(np.shape(array))


def is_same_memory(first: Array, second: Array) -> bool:
    """Whether two contiguous arrays have the same bytes of memory, all of them."""
    if first is second:
        return True
    starts = (array.__array_interface__["data"][0] for array in (first, second))
    return first.nbytes == second.nbytes and len(set(starts)) == 1


class Output:
    """The memory of a result: the caller's array, or a copy when that is not contiguous.

    Attributes:
        memory: where the result lands.
    """

    def __init__(self, array: Array) -> None:
        _require_memory(array)
        if not array.flags.writeable:
            raise CollectiveError("the result's array is read-only; pass a writable one as out=")
        if array.size and any(
            step == 0 and n > 1 for step, n in zip(array.strides, array.shape, strict=True)
        ):
            raise CollectiveError(
                "elements of the result's array share memory (a broadcast view); pass an array "
                "of its own as out="
            )
        self._array = array
        direct = array.flags.c_contiguous
        self.memory: Array = array if direct else np.empty(array.shape, array.dtype)

    def keep_apart_from(self, published: Array) -> None:
        """Land elsewhere first if the result would overwrite what this rank publishes."""
        if self.memory is self._array and np.may_share_memory(self.memory, published):
            self.memory = np.empty(self._array.shape, self._array.dtype)

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
    """Refuse other objects than plain NumPy arrays and scalars.

    A subclass of ``numpy.ndarray`` has more than its numbers (a mask, a unit, two axes for ever),
    which would be lost on the way. ``numpy.memmap`` only says where the numbers are.

    Raises:
        CollectiveError: a list, a tensor, a masked array, or whatever else it is.
    """
    if type(value) is np.ndarray or isinstance(value, (np.generic, np.memmap)):
        return
    kind = type(value).__name__
    if isinstance(value, np.ma.MaskedArray):
        raise CollectiveError(
            f"a {kind} has a mask, which would be ignored; pass array.filled(0), or another value "
            "for the masked elements"
        )
    if isinstance(value, np.ndarray):
        raise CollectiveError(
            f"a {kind} is more than its numbers, which alone would be sent; pass "
            "array.view(numpy.ndarray) if you mean those"
        )
    raise CollectiveError(
        f"a {kind} is not a NumPy array; pass numpy.asarray(...) of it, as out= an array for the "
        "result"
    )


def plain_array(values: npt.ArrayLike) -> Array:
    """``values`` as an array in the wire's byte order, for calls that take lists as well.

    Raises:
        CollectiveError: an array that :func:`require_array` refuses, or nothing that has numbers.
    """
    if isinstance(values, (np.ndarray, np.generic)):
        require_array(values)
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise CollectiveError(
            f"a {type(values).__name__} cannot be made an array: {error}; pass a NumPy array"
        ) from error
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _require_memory(array: Array) -> None:
    require_array(array)
    if array.dtype.hasobject:
        raise CollectiveError(
            f"arrays of {array.dtype} hold Python objects; send bytes, such as "
            "numpy.frombuffer(pickle.dumps(x), numpy.uint8)"
        )


def _require_little_endian(array: Array) -> None:
    if array.dtype.byteorder == ">":
        raise CollectiveError(
            f"arrays of {array.dtype} are big-endian, the wire is not; convert with "
            "array.astype(array.dtype.newbyteorder('<'))"
        )
