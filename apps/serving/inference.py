"""Computes a prompt in chunks, and goes on from its end with the likeliest tokens."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from innet.kv.prefill import PrefillCost
from serving.prompts import Tokens

_TIMED_CHUNKS = 3

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


@dataclass(frozen=True)
class Shape:
    """The size of a model, and the type in which it computes.

    Attributes:
        layers: transformer blocks.
        width: of the residual stream.
        heads: attention heads; they divide the width.
        kv_heads: that have keys and values; they divide the heads.
        dtype: one of :data:`DTYPES`.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    dtype: str


def random_llama(shape: Shape, context: int, seed: int) -> LlamaForCausalLM:
    """A model of bytes, the same for the same seed on every rank."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=shape.width,
        intermediate_size=4 * shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=context,
    )
    return LlamaForCausalLM(config).eval().to(DTYPES[shape.dtype])


@dataclass(frozen=True)
class Continuation:
    """The tokens that a model generated after a prompt.

    Attributes:
        tokens: the likeliest, one after the other.
        scores: the model's output at the prompt's end, of which the first token is the largest.
        first_token_s: from the request to the first token.
        cache: of the prompt and all tokens but the last.
    """

    tokens: list[int]
    scores: npt.NDArray[np.uint8]
    first_token_s: float
    cache: DynamicCache


class Inference:
    """A model with a way to compute prompts.

    Prompts are always cut at the same places, so that every rank computes a chunk's keys and values
    to the same bits. Matrices of other sizes are multiplied in another order, and round
    differently.

    Attributes:
        model: it.
        chunk_tokens: where prompts are cut.
    """

    def __init__(self, model: LlamaForCausalLM, chunk_tokens: int) -> None:
        self.model = model
        self.chunk_tokens = chunk_tokens

    def empty_cache(self) -> DynamicCache:
        """The cache of a prompt without loaded blocks."""
        return DynamicCache(config=self.model.config)

    @torch.no_grad()
    def prefill(self, tokens: Tokens, cache: DynamicCache) -> torch.Tensor:
        """Compute the tokens that the cache lacks; return the output at the prompt's end.

        Args:
            tokens: of the prompt.
            cache: which has whole chunks of it, and not all of it.
        """
        ids = torch.from_numpy(tokens).unsqueeze(0)
        for start in range(cache.get_seq_length(), len(tokens), self.chunk_tokens):
            part = ids[:, start : start + self.chunk_tokens]
            output = self.model(
                input_ids=part, past_key_values=cache, use_cache=True, logits_to_keep=1
            )
        last: torch.Tensor = output.logits[0, -1]
        return last

    def cost(self) -> PrefillCost:
        """The cost of computing on this machine, measured with a few chunks."""
        tokens = np.zeros(_TIMED_CHUNKS * self.chunk_tokens, np.int64)
        self.prefill(tokens[: self.chunk_tokens], self.empty_cache())  # what is slow once
        began_s = time.perf_counter()
        self.prefill(tokens, self.empty_cache())
        return PrefillCost(
            token_s=(time.perf_counter() - began_s) / len(tokens), pair_s=0.0, start_s=0.0
        )

    @torch.no_grad()
    def generate(
        self, tokens: Tokens, new_tokens: int, begin: Callable[[], DynamicCache]
    ) -> Continuation:
        """Compute a prompt, and the likeliest tokens behind it.

        Args:
            tokens: of the prompt.
            new_tokens: that follow, at least 1.
            begin: gives the cache to begin with; the time that this takes counts.
        """
        began_s = time.perf_counter()
        cache = begin()
        scores = self.prefill(tokens, cache)
        chosen = [int(scores.argmax())]
        first_token_s = time.perf_counter() - began_s
        while len(chosen) < new_tokens:
            output = self.model(
                input_ids=torch.tensor([[chosen[-1]]]), past_key_values=cache, use_cache=True
            )
            chosen.append(int(output.logits[0, -1].argmax()))
        bits = scores.contiguous().view(torch.uint8).numpy()
        return Continuation(chosen, bits, first_token_s, cache)
