"""Arguments and results survive the way, and nothing else gets through."""

from __future__ import annotations

import contextlib
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import FunctionError
from innet.ndn.functions.messages import Arguments, Outcome
from innet.ndn.functions.values import decode_value, encode_value

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
def test_what_json_can_say_and_bytes_come_back_as_they_were(value: Any) -> None:
    assert decode_value(encode_value(value)) == value


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "i1", "<u8", "?", "<c8", "<f2"])
def test_arrays_keep_type_shape_and_values_and_can_be_written_to(dtype: str) -> None:
    array = np.arange(6).astype(dtype).reshape(2, 3)
    back = decode_value(encode_value({"a": [array, array[:0]]}))["a"]
    assert back[0].dtype == array.dtype.newbyteorder("<")
    np.testing.assert_array_equal(back[0], array)
    assert back[1].shape == (0, 3)
    back[0][0, 0] = 1


@pytest.mark.parametrize("value", [object(), {1: 2}, np.array(["text"]), {"a": {3}}, 1j])
def test_what_cannot_be_sent_is_refused_with_what_to_do(value: object) -> None:
    with pytest.raises(FunctionError, match="convert it"):
        encode_value(value)


@given(st.binary(max_size=80))
def test_bytes_that_are_no_value_are_refused(encoded: bytes) -> None:
    with contextlib.suppress(FunctionError):
        decode_value(encoded)


@pytest.mark.parametrize(
    ("tree", "sizes", "buffers"),
    [
        ({"$array": 0, "dtype": "|O", "shape": [1]}, [8], b"12345678"),
        ({"$array": 0, "dtype": "<f4", "shape": [3]}, [8], b"12345678"),
        ({"$array": 0, "dtype": "<f4", "shape": [-2, -1]}, [8], b"12345678"),
        ({"$array": 0, "dtype": "f4,f4", "shape": [1]}, [8], b"12345678"),
        ({"$bytes": 1}, [1], b"1"),
        ({"$bytes": -1}, [1], b"1"),
        (None, [2], b"1"),
        (None, [], b"1"),
    ],
)
def test_a_document_that_lies_is_refused(tree: object, sizes: list[int], buffers: bytes) -> None:
    document = json.dumps({"value": tree, "sizes": sizes}).encode()
    with pytest.raises(FunctionError):
        decode_value(struct.pack(">I", len(document)) + document + buffers)


def test_messages_of_another_form_are_refused() -> None:
    for message in ({}, [], {"args": 1, "kwargs": {}, "timeout_s": 1}, 3):
        with pytest.raises(FunctionError):
            Arguments.decode(encode_value(message))
    for timeout_s in (0, -1, float("nan"), float("inf")):
        with pytest.raises(FunctionError, match="out of range"):
            Arguments.decode(Arguments([], {}, timeout_s).encode())
    with pytest.raises(FunctionError):
        Outcome.decode(encode_value({"value": 1}))
