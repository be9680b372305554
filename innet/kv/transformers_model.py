"""What models of the library ``transformers`` say about their identity; see ``model``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel

from innet.errors import KVError
from innet.kv.weights import Weight, weights_digest
from innet.plans.element_types import element_type_of
from innet.torch_backend.tensors import as_source

_IRRELEVANT = re.compile(
    r"_.*|transformers_version|architectures|dtype|torch_dtype|use_cache|return_dict|output_.*|"
    r"chunk_size_feed_forward|id2label|label2id|problem_type|initializer_range|"
    r"(pad|bos|eos|sep|decoder_start)_token_id|.*_dropout"
)
"""Keys of a configuration that change no key and no value: types and weights are told apart on
their own, the others say how to train, to stop or to print."""

_WINDOWS = {"sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size"}
"""Kinds of layers that do not see all tokens, and where the configuration says how many."""


def identity_fields(model: PreTrainedModel, weights: str | None, adapter: str) -> dict[str, Any]:
    """What the model says about itself, for :meth:`ModelIdentity.of_transformers`.

    Raises:
        KVError: as there.
    """
    if weights is not None and not adapter and getattr(model, "_hf_peft_config_loaded", False):
        raise KVError(
            f"the model has an adapter beside the weights {weights}: give its identity too "
            "(adapter=...), or leave weights out, so that all are hashed"
        )
    config = model.config.get_text_config()
    heads = config.num_attention_heads
    compute = _type_name(model.dtype)
    return {
        "architecture": config.model_type,
        "weights": weights or weights_digest(_tensors(model)),
        "configuration": _relevant(config),
        "rope": getattr(config, "rope_parameters", None) or {},
        "compute": compute,
        "cache_type": compute,
        "layers": config.num_hidden_layers,
        "kv_heads": getattr(config, "num_key_value_heads", None) or heads,
        "head_dim": getattr(config, "head_dim", None) or config.hidden_size // heads,
        "attention": _attention(config),
    }


def _tensors(model: PreTrainedModel) -> Iterator[Weight]:
    for name, tensor in model.state_dict().items():
        if tensor.is_meta:
            raise KVError(
                f"{name} has no contents to be told by (it is on the device meta): load the "
                "model's weights, or say whose they are (weights='name@revision')"
            )
        here = tensor.detach().cpu().contiguous()
        bits = as_source(here.reshape(-1).view(torch.uint8))
        yield name, str(tensor.dtype), tuple(tensor.shape), bits


def _relevant(config: PretrainedConfig) -> dict[str, Any]:
    # Through JSON, so that types are named as in a file of the configuration.
    document = json.loads(config.to_json_string(use_diff=False))
    return {key: value for key, value in document.items() if not _IRRELEVANT.fullmatch(key)}


def _type_name(dtype: torch.dtype) -> str:
    """
    Raises:
        KVError: the network has no such type.
    """
    found = element_type_of(as_source(torch.empty(0, dtype=dtype)).dtype)
    if found is None:
        raise KVError(f"a model that computes in {dtype} has no cache of which blocks can be kept")
    return found.name


def _attention(config: PretrainedConfig) -> tuple[str, ...]:
    """
    Raises:
        KVError: there are layers without keys and values of tokens.
    """
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None) or (
        ["sliding_attention" if window else "full_attention"] * config.num_hidden_layers
    )
    return tuple(_attention_of(config, kind) for kind in kinds)


def _attention_of(config: PretrainedConfig, kind: str) -> str:
    short = kind.removesuffix("_attention")
    if kind == "full_attention":
        return short
    if kind not in _WINDOWS:
        raise KVError(
            f"a layer of the kind {kind} has no keys and values of each token; a pool of blocks "
            "serves models whose layers all have them"
        )
    return f"{short}:{getattr(config, _WINDOWS[kind])}"
