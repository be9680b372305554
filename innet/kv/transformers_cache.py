"""Caches of the library ``transformers``, to and from keys and values of a pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import DynamicCache, PretrainedConfig
from transformers.cache_utils import DynamicLayer

from innet.errors import KVError, PrefixLost
from innet.kv.layout import KVArray
from innet.kv.prefix_cache import LoadedLayers
from innet.torch_backend.tensors import as_source, as_tensor, on_host

Pair = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def keys_and_values(cache: DynamicCache, first_token: int = 0) -> list[Pair]:
    """A cache's keys and values of the tokens from ``first_token`` on, for :meth:`KVPool.put`.

    Args:
        cache: of one prompt (a batch of 1), not copied unless it is on a device.
        first_token: earlier tokens are left out.

    Raises:
        KVError: the cache has several prompts, or has dropped tokens already.
    """
    states = [
        states[0, :, first_token:].transpose(0, 1)
        for layer in map(_checked, cache.layers)
        for states in (layer.keys, layer.values)
    ]
    arrays = iter([np.asarray(as_source(tensor)) for tensor in on_host(states)])
    return list(zip(arrays, arrays, strict=True))


def cache_with(
    kv: KVArray, config: PretrainedConfig, device: torch.device | str = "cpu"
) -> DynamicCache:
    """A cache with the keys and values of a prefix.

    Args:
        kv: from :meth:`KVPool.get_longest_prefix`; without tokens, the cache is empty.
        config: of the model.
        device: of the model.

    Example::

        n, kv = pool.blocking.get_longest_prefix(tokens)
        cache = cache_with(kv, model.config, model.device)
        model(input_ids=ids[:, n:], past_key_values=cache)
    """
    cache = DynamicCache(config=config)
    if kv.shape[2]:
        for index, (keys, values) in enumerate(kv):
            cache.update(_heads_first(keys, device), _heads_first(values, device), index)
    return cache


def arriving_cache(parts: Iterator[LoadedLayers], layers: int) -> DynamicCache | None:
    """A cache whose layers arrive while the model computes with the first ones.

    Using a layer waits until it has arrived.

    Args:
        parts: from ``KVPool.blocking.layers``.
        layers: of the model.

    Returns:
        The cache once the first layers have arrived; ``None``: there is no such prefix. If layers
        are lost later, using them raises :class:`PrefixLost`.
    """
    first = next(parts, None)
    if first is None:
        return None
    arrivals = _Arrivals(first, parts)
    cache = DynamicCache()
    cache.layers = [_ArrivingLayer(arrivals, index) for index in range(layers)]
    return cache


class _ArrivingLayer(DynamicLayer):  # type: ignore[misc]
    """A layer that waits for its part of the prefix at its first use."""

    def __init__(self, arrivals: _Arrivals, index: int) -> None:
        super().__init__()
        self._arrivals: _Arrivals | None = arrivals
        self._index = index

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **options: Any
    ) -> Any:
        """Append behind the prefix; see the base class."""
        arrivals, self._arrivals = self._arrivals, None
        if arrivals is not None:
            keys, values = arrivals.layer(self._index)
            device = key_states.device
            super().update(_heads_first(keys, device), _heads_first(values, device))
        return super().update(key_states, value_states, *args, **options)

    def get_seq_length(self) -> int:
        """Its tokens, or those of the prefix that it will start with."""
        if self._arrivals is not None:
            return self._arrivals.tokens
        return int(super().get_seq_length())


class _Arrivals:
    """The layers of a prefix, in their order."""

    def __init__(self, first: LoadedLayers, rest: Iterator[LoadedLayers]) -> None:
        self.tokens = first.tokens
        self._part = first
        self._rest = rest

    def layer(self, index: int) -> npt.NDArray[Any]:
        """
        Raises:
            PrefixLost: it was lost.
        """
        while index >= self._part.layers.end:
            following = next(self._rest, None)
            if following is None:
                raise PrefixLost(
                    f"layer {index} of a prefix of {self.tokens} tokens was lost after the first "
                    "layers had arrived; compute the prompt from its beginning"
                )
            self._part = following
        layer: npt.NDArray[Any] = self._part.kv[index - self._part.layers.first]
        return layer


def _checked(layer: Any) -> Any:
    if getattr(layer, "is_sliding", False):
        raise KVError(
            "a layer with a sliding window has dropped the keys of old tokens; put such a prompt "
            "in parts while it has them, or use a model with full attention"
        )
    if layer.keys.shape[0] != 1:
        raise KVError(
            f"the cache has {layer.keys.shape[0]} prompts; give it prompt by prompt "
            "(batch_select_indices)"
        )
    return layer


def _heads_first(array: npt.NDArray[Any], device: torch.device | str) -> torch.Tensor:
    """To ``(1, heads, tokens, head_dim)`` on the device."""
    return as_tensor(array).to(device).transpose(0, 1).unsqueeze(0)
