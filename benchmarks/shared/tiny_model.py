"""A small language model of bytes, which trains in seconds: for the quality of cached blocks.

It learns to repeat a phrase of 32 bytes, which is in its context alone: what it predicts depends on
the cached keys and values, where a model of a few bytes of text would hardly use them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from innet.kv.layout import BlockLayout, KVArray

LAYERS, HEADS, HEAD_DIM = 2, 4, 16
PHRASE, PREFIX, WINDOW = 32, 128, 160
"""Bytes of a phrase, of the prefix that the cache has, and of the whole window."""
_WIDTH = HEADS * HEAD_DIM


class _Layer(nn.Module):
    """Attention and a perceptron, each on normalised inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(_WIDTH), nn.LayerNorm(_WIDTH)])
        self.projection = nn.Linear(_WIDTH, 3 * _WIDTH)
        self.output = nn.Linear(_WIDTH, _WIDTH)
        self.perceptron = nn.Sequential(
            nn.Linear(_WIDTH, 4 * _WIDTH), nn.GELU(), nn.Linear(4 * _WIDTH, _WIDTH)
        )

    def forward(self, x: Tensor, past: Tensor | None) -> tuple[Tensor, Tensor]:
        """The outputs, and keys and values ``(2, batch, heads, tokens, head_dim)`` of all."""
        batch, tokens, _ = x.shape
        parts = self.projection(self.norms[0](x)).view(batch, tokens, 3, HEADS, HEAD_DIM)
        query, *new = parts.permute(2, 0, 3, 1, 4)
        kv = torch.stack(new) if past is None else torch.cat([past, torch.stack(new)], dim=3)
        before = kv.shape[3] - tokens
        seen = torch.ones(tokens, kv.shape[3], dtype=torch.bool).tril(before)
        found = functional.scaled_dot_product_attention(query, kv[0], kv[1], attn_mask=seen)
        x = x + self.output(found.transpose(1, 2).reshape(batch, tokens, _WIDTH))
        return x + self.perceptron(self.norms[1](x)), kv


class TinyModel(nn.Module):
    """Two layers of four heads over bytes, with learned positions."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = nn.Embedding(256, _WIDTH)
        self.places = nn.Embedding(WINDOW, _WIDTH)
        self.layers = nn.ModuleList([_Layer() for _ in range(LAYERS)])
        self.head = nn.Linear(_WIDTH, 256)

    def forward(self, text: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Logits of ``(batch, tokens)``, and keys and values of all tokens by layer.

        Args:
            text: the tokens after ``past``.
            past: keys and values ``(layers, 2, batch, heads, tokens, head_dim)``.
        """
        start = 0 if past is None else past.shape[4]
        x = self.bytes(text) + self.places(torch.arange(start, start + text.shape[1]))
        caches = []
        for index, layer in enumerate(self.layers):
            x, kv = layer(x, None if past is None else past[index])
            caches.append(kv)
        return self.head(x), torch.stack(caches)


@dataclass(frozen=True)
class Quality:
    """What a codec costs.

    Attributes:
        perplexity: of the text behind the prefix.
        block_bytes: of a block.
    """

    perplexity: float
    block_bytes: int


def text_of(folder: Path) -> Tensor:
    """The pages of a folder as bytes."""
    data = b"".join(path.read_bytes() for path in sorted(folder.glob("*.md")))
    return torch.from_numpy(np.frombuffer(data, np.uint8).copy()).long()


def trained(text: Tensor, steps: int, seed: int = 1, batch: int = 8) -> TinyModel:
    """A model that has learned to repeat phrases of the first nine tenths of a text.

    Args:
        text: see :func:`text_of`.
        steps: of the training.
        seed: of the weights and the phrases.
        batch: phrases in a step.
    """
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # more threads wait for each other longer than these sums take
    model = TinyModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    learned = text[: len(text) * 9 // 10]
    for _ in range(steps):
        starts = torch.randint(len(learned) - PHRASE, (batch,)).tolist()
        windows = torch.cat([_window(learned, start) for start in starts])
        logits, _ = model(windows[:, :-1])
        loss = functional.cross_entropy(
            logits[:, PHRASE:].flatten(0, 1), windows[:, PHRASE + 1 :].flatten()
        )
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model


@torch.no_grad()
def quality(model: TinyModel, text: Tensor, layout: BlockLayout, windows: int = 32) -> Quality:
    """The perplexity of phrases of the last tenth of a text, whose prefixes are in blocks."""
    held_back = text[len(text) * 9 // 10 :]
    losses = []
    for start in torch.linspace(0, len(held_back) - PHRASE, windows).long().tolist():
        window = _window(held_back, start)
        _, kv = model(window[:, :PREFIX])
        cached = kv[:, :, 0].transpose(2, 3).numpy().astype(layout.dtype)
        past = torch.from_numpy(through_blocks(layout, cached).astype(np.float32))
        logits, _ = model(window[:, PREFIX:-1], past.transpose(2, 3)[:, :, None])
        losses.append(functional.cross_entropy(logits[0], window[0, PREFIX + 1 :]))
    perplexity = float(torch.stack(losses).mean().exp())
    return Quality(perplexity, layout.size_bytes(layout.ranges[0]))


def _window(text: Tensor, start: int) -> Tensor:
    """A phrase of a text, repeated: ``(1, WINDOW + 1)``."""
    return text[start : start + PHRASE].repeat(WINDOW // PHRASE + 1)[None, : WINDOW + 1]


def through_blocks(layout: BlockLayout, kv: KVArray) -> KVArray:
    """Keys and values after they were cut into blocks and joined."""
    joined = np.empty_like(kv)
    for start in range(0, kv.shape[2], layout.block_tokens):
        for layers in layout.ranges:
            layout.join(joined, start, layers, layout.cut(kv, start, layers))
    return joined
