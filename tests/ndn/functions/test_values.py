"""Arguments and results survive the way, and nothing else gets through."""

from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import FunctionError
from innet.ndn.functions.messages import (
    MAX_DOCUMENT_BYTES,
    CallArguments,
    CallOutcome,
    decode_value,
    encode_value,
)

_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.binary(max_size=16)
)
_KEYS = st.text(max_size=4) | st.sampled_from(["$bytes", "$array", "$dict"])
VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_json_values_and_bytes_round_trip(value: Any) -> None:
    assert decode_value(encode_value(value)) == value


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "i1", "<u8", "?", "<c8", "<f2"])
def test_arrays_round_trip_and_are_writable(dtype: str) -> None:
    array = np.arange(6).astype(dtype).reshape(2, 3)
    back = decode_value(encode_value({"a": [array, array[:0]]}))["a"]
    assert back[0].dtype == array.dtype.newbyteorder("<")
    np.testing.assert_array_equal(back[0], array)
    assert back[1].shape == (0, 3)
    back[0][0, 0] = 1


@pytest.mark.parametrize("value", [object(), {1: 2}, np.array(["text"]), {"a": {3}}, 1j])
def test_unsupported_values_are_refused_with_advice(value: object) -> None:
    with pytest.raises(FunctionError, match="convert it"):
        encode_value(value)


def message_of(document: object, buffers: bytes = b"") -> bytes:
    text = json.dumps(document).encode()
    return struct.pack(">I", len(text)) + text + buffers


NUMBERS = st.integers(-1, 3) | st.sampled_from([2**31, 2**64, 10**400]) | st.floats() | st.none()
ANYTHING = st.recursive(
    NUMBERS | st.booleans() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.fixed_dictionaries({"$bytes": inner})
        | st.fixed_dictionaries({"$dict": inner})
        | st.fixed_dictionaries(
            {
                "$array": inner,
                "dtype": st.sampled_from(["<f4", "|b1", "<c32", "<f3", "O", "f4,f4"]) | inner,
                "shape": st.lists(NUMBERS, max_size=4) | inner,
            }
        )
    ),
    max_leaves=10,
)
MESSAGES = (
    st.fixed_dictionaries(
        {},
        optional={
            "args": ANYTHING, "kwargs": ANYTHING, "timeout_s": NUMBERS, "value": ANYTHING,
            "error": ANYTHING, "object": ANYTHING, "last": ANYTHING,
            "flow": ANYTHING | st.fixed_dictionaries(
                {"input": ANYTHING, "output": ANYTHING, "window": NUMBERS,
                 "item_timeout_s": NUMBERS}
            ),
        },
    )
    | ANYTHING
)  # fmt: skip


def is_value_or_refused(decode: Callable[[bytes], object], encoded: bytes) -> bool:
    try:
        decode(encoded)
    except FunctionError as refusal:
        return bool(str(refusal))
    return True


@given(ANYTHING, MESSAGES, st.lists(st.integers(-1, 9) | ANYTHING, max_size=3), st.binary())
def test_a_hostile_message_is_a_value_or_a_function_error(
    document: object, message: object, sizes: list[object], buffers: bytes
) -> None:
    hostile = [message_of(tree, buffers) for tree in (document, {"value": message, "sizes": sizes})]
    for encoded in (buffers, *hostile):
        for decode in (decode_value, CallArguments.decode, CallOutcome.decode):
            assert is_value_or_refused(decode, encoded)


def test_a_small_message_cannot_ask_for_many_copies_of_a_large_buffer() -> None:
    array = {"$array": 0, "dtype": "|i1", "shape": [1 << 20]}
    for tree in ([array] * 1000, [array, {"$bytes": 0}], [{"$bytes": 0}] * 2):
        encoded = message_of({"value": tree, "sizes": [1 << 20]}, bytes(1 << 20))
        tracemalloc.start()
        try:
            with pytest.raises(FunctionError, match="twice"):
                decode_value(encoded)
            assert tracemalloc.get_traced_memory()[1] < 4 << 20
        finally:
            tracemalloc.stop()


def test_the_size_of_a_document_is_limited_at_both_ends() -> None:
    assert MAX_DOCUMENT_BYTES <= 256 << 10  # the event loop waits while it is read
    with pytest.raises(FunctionError, match="bytes of JSON: send numbers as NumPy arrays"):
        encode_value("x" * MAX_DOCUMENT_BYTES)
    text = b'{"value":0,"sizes":[]}' + b" " * MAX_DOCUMENT_BYTES
    with pytest.raises(FunctionError, match="bytes of JSON"):
        decode_value(struct.pack(">I", len(text)) + text)


@pytest.mark.parametrize(
    ("tree", "sizes", "buffers"),
    [
        ({"$array": 0, "dtype": "|O", "shape": [1]}, [8], b"12345678"),
        ({"$array": 0, "dtype": "<f4", "shape": [3]}, [8], b"12345678"),
        ({"$array": 0, "dtype": "<f4", "shape": [-2, -1]}, [8], b"12345678"),
        ({"$array": 0, "dtype": "f4,f4", "shape": [1]}, [8], b"12345678"),
        ({"$array": 0, "dtype": "<f4", "shape": [0] + [2**63] * 40}, [0], b""),
        ({"$array": 0, "dtype": "|i1", "shape": [1] * 65}, [1], b"1"),
        ({"$dict": 1}, [], b""),
        ({"$bytes": 1}, [1], b"1"),
        ({"$bytes": False}, [1], b"1"),
        ({"$bytes": -1}, [1], b"1"),
        (None, [2], b"1"),
        (None, [], b"1"),
    ],
)
def test_an_inconsistent_document_is_refused(
    tree: object, sizes: list[int], buffers: bytes
) -> None:
    with pytest.raises(FunctionError):
        decode_value(message_of({"value": tree, "sizes": sizes}, buffers))


def test_messages_of_another_form_are_refused() -> None:
    messages: list[object] = [{}, [], {"args": 1, "kwargs": {}, "timeout_s": 1}, 3]
    for message in messages:
        with pytest.raises(FunctionError):
            CallArguments.decode(encode_value(message))
    for timeout_s in (0, -1, float("nan"), float("inf")):
        with pytest.raises(FunctionError, match="out of range"):
            CallArguments.decode(CallArguments([], {}, timeout_s).encode())
    with pytest.raises(FunctionError):
        CallOutcome.decode(encode_value({"value": 1}))
