"""The identity of real models of the library ``transformers``."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'innet[serving]'")

import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from innet.errors import KVError
from innet.kv.model import ModelIdentity

pytestmark = pytest.mark.torch

SIZES = {
    "vocab_size": 16,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def _llama(seed: int = 0, **changes: object) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(**SIZES | changes))


def test_models_with_different_keys_have_different_identities() -> None:
    models = [
        _llama(),
        _llama(seed=1),
        _llama(rms_norm_eps=1e-5),
        _llama(hidden_act="gelu"),
        _llama(rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
        _llama().to(torch.bfloat16),
    ]
    digests = [ModelIdentity.of_transformers(model).digest for model in models]
    assert len(set(digests)) == len(models)


def test_a_model_has_the_same_identity_on_every_host() -> None:
    first, second = (ModelIdentity.of_transformers(_llama(use_cache=c)) for c in (True, False))
    assert first.digest == second.digest
    assert (first.layers, first.kv_heads, first.head_dim, first.cache_type) == (2, 2, 4, "f32")


def test_windows_are_part_of_the_identity() -> None:
    models = (MistralForCausalLM(MistralConfig(**SIZES, sliding_window=w)) for w in (8, None))
    attention = [ModelIdentity.of_transformers(model).attention for model in models]
    assert attention == [("sliding:8",) * 2, ("full",) * 2]


def test_missing_weights_have_to_be_named() -> None:
    with torch.device("meta"):
        model = _llama()
    with pytest.raises(KVError, match="name@revision"):
        ModelIdentity.of_transformers(model)
    assert ModelIdentity.of_transformers(model, weights="tiny@1").weights == "tiny@1"


def test_an_adapter_beside_vouched_weights_has_to_be_named() -> None:
    model = _llama()
    model._hf_peft_config_loaded = True
    with pytest.raises(KVError, match="adapter"):
        ModelIdentity.of_transformers(model, weights="tiny@1")
    named = ModelIdentity.of_transformers(model, weights="tiny@1", adapter="lora@2")
    assert (named.weights, named.adapter) == ("tiny@1", "lora@2")
