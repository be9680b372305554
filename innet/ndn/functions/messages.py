"""Messages between caller and function, their encoding, and reflexive names.

By a reflexive name, the called node sends Interests to the caller, who needs no prefix for it: a
trigger Interest ends with a random component of type 59. While it is pending, each forwarder on its
path sends Interests for names that begin with that component back on the face of the trigger
(draft-irtf-icnrg-reflexive-forwarding; docs/protocol.md).
"""

from __future__ import annotations

import json
import math
import re
import secrets
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from innet.errors import FunctionError
from innet.names import Name, as_name

_LENGTH = struct.Struct(">I")
_KINDS = "biufc"
"""Kinds of NumPy types in messages: booleans, integers and floats; no objects, no strings."""
_DTYPE = re.compile(f"[<|][{_KINDS}][0-9]{{1,2}}")
_MAX_DEPTH = 64
_MAX_DIMENSIONS = 64
_MAX_LENGTH = (1 << 63) - 1
"""Largest dimension of an array; longer numbers only take time to multiply."""
MAX_DOCUMENT_BYTES = 256 << 10
"""Limit of a message's JSON, without bytes and arrays: 1 MiB of it takes up to a second to read."""


def encode_value(value: object) -> bytes:
    """``value`` as bytes.

    Raises:
        FunctionError: a value has another type, or the JSON part is too large.
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
    """Decode the value that :func:`encode_value` encoded; tuples become lists.

    Raises:
        FunctionError: the bytes are malformed.
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
            f"invalid value of a function ({error}); do both ends run the same version of innet?"
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
"""Errors of Python for a document of another form."""


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
    raise TypeError(f"an object of type {type(value).__name__} cannot be sent")


def _encode_array(array: np.ndarray[Any, Any], buffers: list[bytes]) -> object:
    if array.dtype.kind not in _KINDS:
        raise TypeError(f"an array of {array.dtype} cannot be sent; convert it with array.astype()")
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
        raise ValueError(
            f"refused an array of an unknown type, or of more than {_MAX_DIMENSIONS} dimensions"
        )
    dtype = np.dtype(name)
    if not all(type(n) is int and 0 <= n <= _MAX_LENGTH for n in shape):
        raise ValueError("an array of this shape is not taken")
    if math.prod(shape) * dtype.itemsize != len(buffer):
        raise ValueError(f"an array of shape {shape} does not have {len(buffer)} bytes")
    return np.frombuffer(buffer, dtype).reshape(shape).copy()


MAX_TIMEOUT_S = 86400.0
MAX_WINDOW = 1024
"""Largest window of a flow in items; each function keeps a few windows if their size allows."""


@dataclass(frozen=True)
class CallArguments:
    """Of one call.

    Attributes:
        timeout_s: how long the caller waits for its end.
        flow: for a function in a chain; ``args`` and ``kwargs`` are empty then.
    """

    args: list[Any]
    kwargs: dict[str, Any]
    timeout_s: float
    flow: FlowPart | None = None

    def encode(self) -> bytes:
        message: dict[str, Any] = {
            "args": self.args,
            "kwargs": self.kwargs,
            "timeout_s": self.timeout_s,
        }
        if self.flow is not None:
            message["flow"] = {
                "input": str(self.flow.input_prefix),
                "output": str(self.flow.output_prefix),
                "window": self.flow.window,
                "item_timeout_s": self.flow.item_timeout_s,
            }
        return encode_value(message)

    @classmethod
    def decode(cls, encoded: bytes) -> CallArguments:
        """
        Raises:
            FunctionError: these bytes are not arguments.
        """
        message = decode_value(encoded)
        try:
            part = message.get("flow")
            flow = None if part is None else FlowPart.of(part)
            timeout_s = _time_s(message["timeout_s"])
            return cls(list(message["args"]), dict(message["kwargs"]), timeout_s, flow)
        except _MALFORMED as error:
            raise FunctionError(f"invalid arguments of a call: {error!r}") from error


@dataclass(frozen=True)
class FlowPart:
    """A function's place in a chain.

    Attributes:
        input_prefix: items are requested as ``<input_prefix>/seq=<n>``.
        output_prefix: and given as ``<output_prefix>/seq=<n>``.
        window: items that its consumer requests at once, at most.
        item_timeout_s: how long one item may take here.
    """

    input_prefix: Name
    output_prefix: Name
    window: int
    item_timeout_s: float

    @classmethod
    def of(cls, message: dict[str, Any]) -> FlowPart:
        """The part that the arguments of a call describe."""
        window = int(message["window"])
        if not 0 < window <= MAX_WINDOW:
            raise ValueError(f"a window of {window} is out of range")
        return cls(
            as_name(str(message["input"])),
            as_name(str(message["output"])),
            window,
            _time_s(message["item_timeout_s"]),
        )


@dataclass(frozen=True)
class CallOutcome:
    """How a call, or one item of a flow, ended.

    Attributes:
        value: the result.
        error: what went wrong; empty: nothing.
        object_name: where the result is, when it is larger than a packet.
        last: there is no such item, nor a later one.
    """

    value: Any = None
    error: str = ""
    object_name: str = ""
    last: bool = False

    def encode(self) -> bytes:
        """
        Raises:
            FunctionError: the result cannot be sent.
        """
        return encode_value(
            {
                "value": self.value,
                "error": self.error,
                "object": self.object_name,
                "last": self.last,
            }
        )

    @classmethod
    def decode(cls, encoded: bytes) -> CallOutcome:
        """
        Raises:
            FunctionError: these bytes are not an outcome.
        """
        message = decode_value(encoded)
        try:
            return cls(
                message["value"],
                str(message["error"]),
                str(message["object"]),
                bool(message["last"]),
            )
        except _MALFORMED as error:
            raise FunctionError(f"invalid result of a call: {error!r}") from error


def _time_s(said: Any) -> float:
    time_s = float(said)
    if not 0 < time_s <= MAX_TIMEOUT_S:
        raise ValueError(f"a time of {time_s:g} s is out of range")
    return time_s


REFLEXIVE = 59
_PREFIX_BYTES = 16


def new_reflexive_name() -> Name:
    """A unique, unguessable name: one random component."""
    return as_name("/").append(REFLEXIVE, secrets.token_bytes(_PREFIX_BYTES))


def trigger_name(function: Name, reflexive: Name) -> Name:
    """Name of the Interest that calls ``function`` and carries the caller's ``reflexive`` name."""
    return function.append(REFLEXIVE, reflexive[0][1])


def reflexive_name_of(trigger: Name) -> Name | None:
    """The reflexive name in ``trigger``, or ``None``."""
    component, value = trigger[-1]
    return as_name("/").append(REFLEXIVE, value) if component == REFLEXIVE else None
