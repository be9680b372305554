"""Prefill workers and decode workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from transformers import DynamicCache

import innet
from innet.errors import PrefixLost
from innet.kv.prefill import PrefillCost
from innet.kv.transformers_cache import arriving_cache, cache_with, keys_and_values
from serving.inference import Continuation, Inference
from serving.prompts import Request, Tokens


def prefill_documents(
    pool: innet.KVPool,
    inference: Inference,
    documents: Sequence[Tokens],
    done: Callable[[int], None],
) -> None:
    """Compute documents and put them; ``done`` is called with the number so far."""
    for number, tokens in enumerate(documents, 1):
        cache = inference.empty_cache()
        inference.prefill(tokens, cache)
        pool.blocking.put(tokens, keys_and_values(cache))
        done(number)


@dataclass(frozen=True)
class Served:
    """A request that was answered.

    Attributes:
        request: its number.
        prompt_tokens: of it.
        found_tokens: of its prefix in the pool.
        first_token_s: from the request to the first new token.
        alone_s: the same without the pool; 0: that was not tried.
        equal: whether both went on the same to the bit, or nothing was compared.
    """

    request: int
    prompt_tokens: int
    found_tokens: int
    first_token_s: float
    alone_s: float
    equal: bool


@dataclass(frozen=True)
class DecodeOptions:
    """How requests are answered.

    Attributes:
        new_tokens: of each answer.
        by_layer: decoding begins when the first layers have come.
        deadline_s: for a prefix to come.
        cost: of computing, where blocks that are sooner computed are not to be loaded.
        compare: answer each request without the pool as well.
    """

    new_tokens: int
    by_layer: bool
    deadline_s: float | None
    cost: PrefillCost | None
    compare: bool


class DecodeWorker:
    """Answers requests, and loads the parts of prompts that other workers have computed."""

    def __init__(self, pool: innet.KVPool, inference: Inference, options: DecodeOptions) -> None:
        self._pool = pool
        self._inference = inference
        self._options = options
        self._found = 0

    def answer(self, request: Request) -> Served:
        """Answer a request, and put the blocks that were computed for it."""
        tokens, compute = request.tokens, self._inference.empty_cache
        generate = partial(self._inference.generate, tokens, self._options.new_tokens)
        try:
            answer = generate(lambda: self._begin(tokens))
        except PrefixLost:
            self._found = 0
            answer = generate(compute)
        alone = generate(compute) if self._options.compare else None
        self._share(tokens, answer.cache)
        return Served(
            request.number,
            len(tokens),
            self._found,
            answer.first_token_s,
            0.0 if alone is None else alone.first_token_s,
            alone is None or _equal(answer, alone),
        )

    def _begin(self, tokens: Tokens) -> DynamicCache:
        """A cache with the blocks of a prompt that the pool has.

        At least the last token is left to compute, because its output is the next token. So are the
        tokens of incomplete chunks.
        """
        chunk = self._inference.chunk_tokens
        wanted = tokens[: (len(tokens) - 1) // chunk * chunk]
        self._found = 0
        if self._options.by_layer:
            parts = self._pool.blocking.layers(wanted, deadline_s=self._options.deadline_s)
            arriving = arriving_cache(parts, self._pool.model.layers)
            if arriving is None:
                return self._inference.empty_cache()
            self._found = arriving.get_seq_length()
            return arriving
        self._found, kv = self._pool.blocking.get_longest_prefix(
            wanted, deadline_s=self._options.deadline_s, cost=self._options.cost
        )
        return cache_with(kv, self._inference.model.config)

    def _share(self, tokens: Tokens, cache: DynamicCache) -> None:
        """Put the new chunks of the prompt, for later requests about it."""
        size = len(tokens)
        new = [
            (keys[: size - self._found], values[: size - self._found])
            for keys, values in keys_and_values(cache, self._found)
        ]
        self._pool.blocking.put(tokens, new, first_token=self._found)


def _equal(one: Continuation, other: Continuation) -> bool:
    """Whether two answers are the same, and the keys and values behind them, to the bit."""
    return (
        one.tokens == other.tokens
        and bool((one.scores == other.scores).all())
        and all(
            np.array_equal(here.view(np.uint8), there.view(np.uint8))
            for pair, other_pair in zip(
                keys_and_values(one.cache), keys_and_values(other.cache), strict=True
            )
            for here, there in zip(pair, other_pair, strict=True)
        )
    )
