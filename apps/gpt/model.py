"""A transformer that predicts the next byte (GPT-2's form: pre-norm, learned positions)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn

from gpt.corpus import VOCABULARY
from gpt.experts import MixtureOfExperts

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Causal attention of query, key and value, shape ``(batch, heads, context, head size)`` each."""

_INITIAL_DEVIATION = 0.02


@dataclass(frozen=True)
class Shape:
    """How large a model is.

    Attributes:
        layers: transformer blocks.
        width: of the residual stream.
        heads: attention heads; they divide the width.
        context: bytes that the model sees at once.
        experts: of each block; 0 for an ordinary multilayer perceptron.
    """

    layers: int
    width: int
    heads: int
    context: int
    experts: int = 0


def attend_locally(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """PyTorch's own attention: all keys are here."""
    return nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)


class Attention(nn.Module):
    """Causal self-attention over several heads.

    Query, key and value are separate layers, so that tensor parallelism can give each rank some
    of the heads.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.head_size = shape.width // shape.heads
        self.query = nn.Linear(shape.width, shape.width)
        self.key = nn.Linear(shape.width, shape.width)
        self.value = nn.Linear(shape.width, shape.width)
        self.output = nn.Linear(shape.width, shape.width)
        self.attend: Attend = attend_locally

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        """From shape ``(batch, context, width)`` to the same."""
        query, key, value = (
            self._heads(layer(stream)) for layer in (self.query, self.key, self.value)
        )
        attended = self.attend(query, key, value)
        return cast(torch.Tensor, self.output(attended.transpose(1, 2).flatten(2)))

    def _heads(self, projected: torch.Tensor) -> torch.Tensor:
        # As many heads as there are: with tensor parallelism, some of them.
        return projected.view(*projected.shape[:-1], -1, self.head_size).transpose(1, 2)


class Perceptron(nn.Module):
    """The two layers after each attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        """From shape ``(..., width)`` to the same."""
        return cast(torch.Tensor, self.down(nn.functional.gelu(self.up(stream))))


class Block(nn.Module):
    """Attention, then a perceptron or a mixture of experts, each added to the stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(shape.width)
        self.attention = Attention(shape)
        self.mlp_norm = nn.LayerNorm(shape.width)
        self.mlp: nn.Module = (
            MixtureOfExperts(shape.width, shape.experts)
            if shape.experts
            else Perceptron(shape.width)
        )

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        """From shape ``(batch, context, width)`` to the same."""
        stream = stream + self.attention(self.attention_norm(stream))
        return cast(torch.Tensor, stream + self.mlp(self.mlp_norm(stream)))


class GPT(nn.Module):
    """The whole model, or, with parts taken away, one stage of a pipeline.

    Attributes:
        first_position: place of the first input byte in its context; not zero on ranks that hold a
            later part of it.
    """

    def __init__(self, shape: Shape, seed: int) -> None:
        """Initialise the parameters, which are equal for equal seeds."""
        super().__init__()
        self.shape = shape
        self.first_position = 0
        self.token_embedding: nn.Module | None = nn.Embedding(VOCABULARY, shape.width)
        self.position_embedding: nn.Module | None = nn.Embedding(shape.context, shape.width)
        # By name, so that a block keeps its name in a stage that lacks those before it.
        self.blocks = nn.ModuleDict({str(layer): Block(shape) for layer in range(shape.layers)})
        self.norm: nn.Module | None = nn.LayerNorm(shape.width)
        self.head: nn.Module | None = nn.Linear(shape.width, VOCABULARY, bias=False)
        self._initialise(seed)

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        """From bytes, shape ``(batch, context)`` int64, to logits ``(batch, context, 256)``.

        A stage of a pipeline starts from, and ends with, shape ``(batch, context, width)`` where it
        lacks the embedding or the head.
        """
        if self.token_embedding is not None and self.position_embedding is not None:
            first = self.first_position
            positions = torch.arange(first, first + stream.shape[1], device=stream.device)
            stream = self.token_embedding(stream) + self.position_embedding(positions)
        for block in self.blocks.values():
            stream = block(stream)
        if self.norm is not None and self.head is not None:
            stream = self.head(self.norm(stream))
        return stream

    def mixtures(self) -> list[MixtureOfExperts]:
        """The mixtures of experts of all blocks."""
        return [module for module in self.modules() if isinstance(module, MixtureOfExperts)]

    def _initialise(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for name, parameter in self.named_parameters():
            if name.endswith("norm.weight"):
                nn.init.ones_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.normal_(parameter, std=_INITIAL_DEVIATION, generator=generator)


def loss_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy per byte, in nats.

    Args:
        logits: shape ``(batch, context, 256)``.
        targets: shape ``(batch, context)``.
    """
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
