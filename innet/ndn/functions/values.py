"""Arguments and results as bytes: what JSON can say, bytes and NumPy arrays. Nothing is unpickled.

A value is a JSON document, in which bytes and arrays stand as ``{"$bytes": i}`` and
``{"$array": i, "dtype": "<f4", "shape": [2, 3]}`` (dictionaries with such keys of their own are
escaped), and then the bytes of those buffers, in the order of ``i``::

    4 bytes   length of the JSON document, big-endian
    n bytes   {"value": ..., "sizes": [bytes of each buffer]}
    ...       the buffers

Each buffer stands for one value, so that a small document cannot ask for many copies of a large
buffer; and a document, which takes some forty times its size once it is read, and time in the event
loop, has a bound of its own.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from innet.errors import FunctionError

_LENGTH = struct.Struct(">I")
_KINDS = "biufc"
"""Of NumPy's types: truth values, integers and floats; no objects, no strings."""
_DTYPE = re.compile(f"[<|][{_KINDS}][0-9]{{1,2}}")
_MAX_DEPTH = 64
_MAX_DIMENSIONS = 64
_MAX_LENGTH = (1 << 63) - 1
"""Of an array in one dimension; longer numbers only take time to multiply."""
MAX_DOCUMENT_BYTES = 256 << 10
"""Of JSON: everything but bytes and arrays. The event loop reads 1 MiB of it a second at worst."""


def encode_value(value: object) -> bytes:
    """``value`` as bytes.

    Raises:
        FunctionError: something in it is none of these types, or there is too much of JSON.
    """
    buffers: list[bytes] = []
    try:
        tree = _encode(value, buffers, 0)
        document = json.dumps(
            {"value": tree, "sizes": [len(buffer) for buffer in buffers]}, separators=(",", ":")
        ).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise FunctionError(
            f"{error}: arguments and results are what JSON can say, bytes and NumPy arrays of "
            "numbers; convert it, with .tolist() or str() for example"
        ) from error
    if len(document) > MAX_DOCUMENT_BYTES:
        raise FunctionError(
            f"more than {MAX_DOCUMENT_BYTES} bytes of JSON: send numbers as NumPy arrays, and long "
            "texts as bytes"
        )
    return b"".join((_LENGTH.pack(len(document)), document, *buffers))


def decode_value(encoded: bytes) -> Any:
    """The value that :func:`encode_value` was given; tuples come back as lists.

    Raises:
        FunctionError: these bytes are no value.
    """
    try:
        (size,) = _LENGTH.unpack_from(encoded)
        if size > MAX_DOCUMENT_BYTES:
            raise ValueError(f"more than {MAX_DOCUMENT_BYTES} bytes of JSON")
        start = _LENGTH.size + size
        document = json.loads(encoded[_LENGTH.size : start])
        buffers = _Buffers(memoryview(encoded)[start:], document["sizes"])
        return _decode(document["value"], buffers, 0)
    except _MALFORMED as error:
        raise FunctionError(
            f"what came is no value of a function ({error}); do both ends run the same version of "
            "innet?"
        ) from error


_MALFORMED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""What Python says of a document that is not of the form above."""


class _Buffers:
    """The buffers behind a document. Each is taken once, and none is left over."""

    def __init__(self, encoded: memoryview, sizes: list[Any]) -> None:
        self._buffers: dict[object, memoryview] = {}
        for number, size in enumerate(sizes):
            if not (isinstance(size, int) and 0 <= size <= len(encoded)):
                raise ValueError("a buffer is cut off")
            self._buffers[number] = encoded[:size]
            encoded = encoded[size:]
        if encoded:
            raise ValueError("bytes are left over")

    def take(self, number: object) -> memoryview:
        if type(number) is not int or number not in self._buffers:
            raise ValueError("a buffer's number is none, or stands twice")
        return self._buffers.pop(number)


def _encode(value: object, buffers: list[bytes], depth: int) -> object:
    if depth > _MAX_DEPTH:
        raise ValueError(f"nested more than {_MAX_DEPTH} deep")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        buffers.append(bytes(value))
        return {"$bytes": len(buffers) - 1}
    if isinstance(value, np.generic):
        return _encode(value.item(), buffers, depth)
    if isinstance(value, np.ndarray):
        return _encode_array(value, buffers)
    if isinstance(value, Mapping):
        return _encode_mapping(value, buffers, depth)
    if isinstance(value, Sequence):
        return [_encode(item, buffers, depth + 1) for item in value]
    raise TypeError(f"a {type(value).__name__} cannot be sent")


def _encode_array(array: np.ndarray[Any, Any], buffers: list[bytes]) -> object:
    if array.dtype.kind not in _KINDS:
        raise TypeError(f"an array of {array.dtype} cannot be sent")
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    buffers.append(little.tobytes())
    return {"$array": len(buffers) - 1, "dtype": little.dtype.str, "shape": list(array.shape)}


def _encode_mapping(value: Mapping[Any, Any], buffers: list[bytes], depth: int) -> object:
    if not all(isinstance(key, str) for key in value):
        raise TypeError("a dictionary whose keys are not all strings cannot be sent")
    items = {key: _encode(item, buffers, depth + 1) for key, item in value.items()}
    return {"$dict": items} if any(key.startswith("$") for key in items) else items


def _decode(tree: Any, buffers: _Buffers, depth: int) -> Any:
    if depth > 2 * _MAX_DEPTH:
        raise ValueError("nested too deep")
    if isinstance(tree, list):
        return [_decode(item, buffers, depth + 1) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if "$bytes" in tree:
        return bytes(buffers.take(tree["$bytes"]))
    if "$array" in tree:
        return _decode_array(tree, buffers.take(tree["$array"]))
    items = tree.get("$dict", tree)
    return {key: _decode(item, buffers, depth + 1) for key, item in items.items()}


def _decode_array(tree: dict[str, Any], buffer: memoryview) -> np.ndarray[Any, Any]:
    name, shape = tree["dtype"], tree["shape"]
    if _DTYPE.fullmatch(name) is None or len(shape) > _MAX_DIMENSIONS:
        raise ValueError("an array of this type or shape is not taken")
    dtype = np.dtype(name)
    if not all(type(n) is int and 0 <= n <= _MAX_LENGTH for n in shape):
        raise ValueError("an array of this shape is not taken")
    if math.prod(shape) * dtype.itemsize != len(buffer):
        raise ValueError(f"an array of shape {shape} does not have {len(buffer)} bytes")
    return np.frombuffer(buffer, dtype).reshape(shape).copy()
