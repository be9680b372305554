"""Requests to language models: recorded ones, and generated ones whose blocks are used again in
other ways."""

from __future__ import annotations

import os
import random
from bisect import bisect
from collections.abc import Callable
from itertools import accumulate, count
from pathlib import Path
from typing import Final

from innet.kv.hash_chain import HASH_BYTES
from innet.lab.traces import BLOCK_TOKENS, PromptRequest

SLICE: Final = Path(__file__).resolve().parents[2] / "workloads" / "traces" / "conversation.jsonl"
"""The beginning of Mooncake's conversation trace."""
_WHOLE: Final = "INNET_CONVERSATION_TRACE"
"""The variable that names the file with all of it."""
_INTERVAL_S: Final = 0.3
_OUTPUT_TOKENS: Final = 300
_LIVE_SESSIONS: Final = 300


def recorded(*, quick: bool) -> Path:
    """The conversation trace: all of it, if it is there and ``quick`` is false."""
    return SLICE if quick else Path(os.environ.get(_WHOLE) or SLICE)


def chats(requests: int, seed: int = 1) -> tuple[PromptRequest, ...]:
    """Conversations: each request repeats its conversation and adds some blocks.

    300 conversations are live at any time. Nearly every block is used again soon, or never.
    """
    made = _Generator(seed)
    system = made.blocks(2)
    sessions: list[list[bytes]] = []
    for _ in range(requests):
        if len(sessions) < _LIVE_SESSIONS or made.random.random() < 0.18:
            sessions.append(system + made.some_blocks(8))
            chosen = len(sessions) - 1
        else:
            chosen = made.random.randrange(len(sessions))
            sessions[chosen] = sessions[chosen] + made.some_blocks(3)
        made.add(sessions[chosen])
        if len(sessions) > _LIVE_SESSIONS:
            sessions.pop(made.random.randrange(len(sessions)))
    return tuple(made.requests)


def agents(requests: int, seed: int = 1) -> tuple[PromptRequest, ...]:
    """Programs with tools: one of 400 beginnings of some 12 blocks, by Zipf, then 5 own blocks."""
    made = _Generator(seed)
    heads = [made.blocks(max(1, int(made.random.lognormvariate(2.3, 0.6)))) for _ in range(400)]
    pick = made.zipf(len(heads), 0.9)
    for _ in range(requests):
        made.add(heads[pick()] + made.some_blocks(5))
    return tuple(made.requests)


def documents(requests: int, seed: int = 1) -> tuple[PromptRequest, ...]:
    """Questions on one of 3000 documents of some 28 blocks, by Zipf: one block differs."""
    made = _Generator(seed)
    texts = [made.blocks(max(4, int(made.random.lognormvariate(3.2, 0.5)))) for _ in range(3000)]
    pick = made.zipf(len(texts), 1.0)
    for _ in range(requests):
        made.add(texts[pick()] + made.blocks(1))
    return tuple(made.requests)


def handbooks(requests: int, seed: int = 1) -> tuple[PromptRequest, ...]:
    """Questions on one of 1100 texts, all alike: half have up to 18 blocks, a tenth 65 or more."""
    made = _Generator(seed)
    texts = [made.blocks(max(2, int(made.random.lognormvariate(2.9, 1.0)))) for _ in range(1100)]
    for _ in range(requests):
        made.add(made.random.choice(texts) + made.blocks(1))
    return tuple(made.requests)


GENERATED: Final[dict[str, Callable[[int, int], tuple[PromptRequest, ...]]]] = {
    "chats": chats,
    "agents": agents,
    "documents": documents,
    "handbooks": handbooks,
}
"""The functions by their names."""


class _Generator:
    """Generates requests from a seed.

    Attributes:
        random: the source of all random numbers.
        requests: generated so far.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.requests: list[PromptRequest] = []
        self._hashes = count()

    def blocks(self, number: int) -> list[bytes]:
        """New blocks."""
        return [next(self._hashes).to_bytes(HASH_BYTES, "big") for _ in range(number)]

    def some_blocks(self, mean: int) -> list[bytes]:
        """An exponentially distributed number of new blocks, at least one."""
        return self.blocks(max(1, int(self.random.expovariate(1 / mean))))

    def zipf(self, number: int, skew: float) -> Callable[[], int]:
        """Draws indices below ``number``, with weights ``1 / (index + 1) ** skew``."""
        sums = list(accumulate(1 / (place + 1) ** skew for place in range(number)))
        return lambda: bisect(sums, self.random.random() * sums[-1])

    def add(self, blocks: list[bytes]) -> None:
        """Append the next request."""
        arrival_s = _INTERVAL_S * len(self.requests)
        tokens = BLOCK_TOKENS * len(blocks)
        self.requests.append(PromptRequest(arrival_s, tokens, _OUTPUT_TOKENS, tuple(blocks)))
