"""What makes a block wrong is in the model's digest."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from innet.errors import KVError
from innet.kv.model import ModelIdentity, weights_digest

LLAMA = ModelIdentity(
    architecture="llama",
    weights="tiny@1",
    compute="bf16",
    cache_type="bf16",
    layers=4,
    kv_heads=2,
    head_dim=64,
    configuration={"rms_norm_eps": 1e-6, "hidden_act": "silu"},
    rope={"rope_theta": 10000.0, "rope_type": "default"},
    tensor_parallel_size=2,
)

TEXTS = st.text(min_size=1, max_size=8)
SETTINGS = st.dictionaries(TEXTS, st.one_of(TEXTS, st.integers(), st.booleans(), st.none()))
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "architecture": TEXTS,
    "weights": TEXTS,
    "compute": TEXTS,
    "cache_type": st.sampled_from(["f16", "f32", "f8e4m3fn", "f8e5m2"]),
    "layers": st.integers(1, 99),
    "kv_heads": st.integers(1, 99),
    "head_dim": st.integers(1, 999),
    "configuration": SETTINGS,
    "rope": SETTINGS,
    "cache_quantisation": TEXTS,
    "attention": st.tuples(*[st.sampled_from(["full", "sliding:7", "chunked:7"])] * 4),
    "tensor_parallel_rank": st.just(1),
    "tensor_parallel_size": st.integers(1, 9),
    "adapter": TEXTS,
    "tokenizer": TEXTS,
}


def test_the_hashed_bytes_are_as_documented() -> None:
    identity = ModelIdentity(
        architecture="llama", weights="é@1", compute="f32", cache_type="f32",
        layers=2, kv_heads=1, head_dim=8, rope={"b": 1e-6, "a": [True, None]},
    )  # fmt: skip
    document = (
        '{"adapter":"","architecture":"llama","attention":["full","full"],"cache_quantisation":"",'
        '"cache_type":"f32","compute":"f32","configuration":{},"head_dim":8,"kv_heads":1,'
        '"layers":2,"rope":{"a":[true,null],"b":1e-06},"tensor_parallel_rank":0,'
        '"tensor_parallel_size":1,"tokenizer":"","version":1,"weights":"\\u00e9@1"}'
    )
    assert identity.canonical.decode() == document
    assert identity.digest == hashlib.sha256(document.encode()).hexdigest()


def test_every_field_is_tried() -> None:
    assert set(FIELDS) == {field.name for field in dataclasses.fields(ModelIdentity)}


@pytest.mark.parametrize("name", FIELDS)
@settings(max_examples=20)
@given(data=st.data())
def test_each_field_changes_the_digest(name: str, data: st.DataObject) -> None:
    before = getattr(LLAMA, name)
    other = data.draw(FIELDS[name].filter(lambda value: value != (before or ("full",) * 4)))
    assert dataclasses.replace(LLAMA, **{name: other}).digest != LLAMA.digest


def test_the_order_of_keys_does_not_change_the_identity() -> None:
    turned = dict(reversed(list(LLAMA.configuration.items())))
    same = dataclasses.replace(LLAMA, configuration=turned, attention=("full",) * 4)
    assert same.digest == LLAMA.digest


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": ""}, "needs weights"),
        ({"cache_type": "bfloat16"}, "bf16"),
        ({"layers": 0}, "layers of a model is at least 1"),
        ({"tensor_parallel_rank": 2}, "tensor_parallel_rank 2"),
        ({"attention": ("full",)}, "1 entries"),
        ({"rope": {"theta": float("nan")}}, "JSON"),
        ({"configuration": {"types": {1, 2}}}, "JSON"),
        ({"configuration": {"labels": [{1: "a"}]}}, "invalid key 1"),
    ],
)
def test_configurations_that_identify_no_model_are_refused(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(KVError, match=message):
        dataclasses.replace(LLAMA, **changes)


def test_malformed_models_are_reported() -> None:
    with pytest.raises(KVError, match="a str is not a model of transformers"):
        ModelIdentity.of_transformers("llama")


def test_weights_are_identified_by_names_types_shapes_and_bytes() -> None:
    zeros = np.zeros(4, np.float32)
    variants: list[list[tuple[str, str, tuple[int, ...], np.ndarray]]] = [
        [("a", "f32", (4,), zeros)],
        [("b", "f32", (4,), zeros)],
        [("a", "i32", (4,), zeros)],
        [("a", "f32", (2, 2), zeros)],
        [("a", "f32", (4,), zeros + 1)],
        [("a", "f32", (2,), zeros[:2]), ("b", "f32", (2,), zeros[:2])],
    ]
    assert len({weights_digest(variant) for variant in variants}) == len(variants)
    both = [("a", "f32", (4,), zeros), ("b", "f32", (4,), zeros + 1)]
    assert weights_digest(both) == weights_digest(reversed(both))
