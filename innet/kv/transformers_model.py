"""The identity of models of the library ``transformers``; see ``model``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy.typing as npt
import torch
from transformers import PretrainedConfig, PreTrainedModel

from innet.errors import KVError
from innet.plans.element_types import element_type_of
from innet.torch_backend.tensors import as_source

_IRRELEVANT = re.compile(
    r"_.*|transformers_version|architectures|dtype|torch_dtype|use_cache|return_dict|output_.*|"
    r"chunk_size_feed_forward|id2label|label2id|problem_type|initializer_range|"
    r"(pad|bos|eos|sep|decoder_start)_token_id|.*_dropout"
)
"""Configuration entries that affect no key and no value: types and weights are covered on their
own, the others are about training, stopping or printing."""

_WINDOWS = {"sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size"}
"""Kinds of layers that do not see all tokens, and the configuration entry with their number."""


def identity_fields(model: PreTrainedModel) -> dict[str, Any]:
    """The fields of a model's identity that follow from its configuration.

    Raises:
        KVError: its cache does not consist of keys and values.
    """
    config = model.config.get_text_config()
    heads = config.num_attention_heads
    compute = _type_name(model.dtype)
    return {
        "architecture": config.model_type,
        "configuration": _relevant(config),
        "rope": getattr(config, "rope_parameters", None) or {},
        "compute": compute,
        "cache_type": compute,
        "layers": config.num_hidden_layers,
        "kv_heads": getattr(config, "num_key_value_heads", None) or heads,
        "head_dim": getattr(config, "head_dim", None) or config.hidden_size // heads,
        "attention": _attention(config),
    }


def tensors_of(
    model: PreTrainedModel,
) -> Iterator[tuple[str, str, tuple[int, ...], npt.NDArray[Any]]]:
    """A model's weights, as :func:`innet.kv.model.weights_digest` takes them.

    Raises:
        KVError: the model has none.
    """
    for name, tensor in model.state_dict().items():
        if tensor.is_meta:
            raise KVError(
                f"{name} has no contents (it is on the device meta): load the model's weights, or "
                "name them (weights='name@revision')"
            )
        here = tensor.detach().cpu().contiguous()
        bits = as_source(here.reshape(-1).view(torch.uint8))
        yield name, str(tensor.dtype), tuple(tensor.shape), bits


def _relevant(config: PretrainedConfig) -> dict[str, Any]:
    # Through JSON, so that types have the names of a configuration file.
    document = json.loads(config.to_json_string(use_diff=False))
    return {key: value for key, value in document.items() if not _IRRELEVANT.fullmatch(key)}


def _type_name(dtype: torch.dtype) -> str:
    """
    Raises:
        KVError: blocks cannot have this type.
    """
    found = element_type_of(as_source(torch.empty(0, dtype=dtype)).dtype)
    if found is None:
        raise KVError(f"unsupported type {dtype}: blocks cannot hold the cache of this model")
    return found.name


def _attention(config: PretrainedConfig) -> tuple[str, ...]:
    """
    Raises:
        KVError: a layer has no keys and values of tokens.
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
            f"a layer of the kind {kind} does not have keys and values of each token; a pool of "
            "blocks needs models whose layers all do"
        )
    return f"{short}:{getattr(config, _WINDOWS[kind])}"
