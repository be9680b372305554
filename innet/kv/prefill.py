"""The costs of computing and of loading a prompt's blocks, and the better mix of both.

Computing ``n`` tokens behind ``c`` cached ones takes

    start + n · token + pairs · pair,    pairs = n · c + n (n + 1) / 2

* ``token``: the linear layers, 2 floating-point operations per weight and token;
* ``pair``: attention, 4 · layers · width operations for each token and each token that it sees;
* ``start``: the fixed time of a prefill.

(Counted as in Kaplan et al., "Scaling Laws for Neural Language Models", 2020, section 2.1.) The
defaults are those of a model of 8 billion weights, 32 layers and a width of 4096 on an accelerator
that does 156 · 10^12 operations a second: an NVIDIA A100 at half its peak in bfloat16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_OPERATIONS_PER_S = 156e12
_WEIGHT = 0.25
"""Weight of the latest measurement in the running average."""
_FORGOTTEN_AFTER_S = 10.0


@dataclass(frozen=True)
class PrefillCost:
    """The cost of computing.

    Attributes:
        token_s: of each token.
        pair_s: of each pair of a token and one that it attends to.
        start_s: of each prefill.
    """

    token_s: float = 2 * 8e9 / _OPERATIONS_PER_S
    pair_s: float = 4 * 32 * 4096 / _OPERATIONS_PER_S
    start_s: float = 0.005

    def duration_s(self, new_tokens: int, cached_tokens: int) -> float:
        """Seconds to compute ``new_tokens`` behind ``cached_tokens``.

        >>> PrefillCost(token_s=1.0, pair_s=0.5, start_s=0.25).duration_s(2, 3)
        6.75
        """
        pairs = new_tokens * cached_tokens + new_tokens * (new_tokens + 1) / 2
        return self.start_s + new_tokens * self.token_s + pairs * self.pair_s


@dataclass(frozen=True)
class LoadTime:
    """The cost of loading.

    Attributes:
        latency_s: until the first bytes arrive.
        bytes_per_s: from then on.
    """

    latency_s: float
    bytes_per_s: float

    def duration_s(self, size_bytes: int) -> float:
        """Seconds to load that many bytes; zero bytes take no time."""
        return self.latency_s + size_bytes / self.bytes_per_s if size_bytes else 0.0


@dataclass(frozen=True)
class Arrivals:
    """Blocks that arrived.

    Attributes:
        duration_s: the time they took.
        size_bytes: their total size.
    """

    duration_s: float
    size_bytes: int


class LoadSpeed:
    """A running average of the cost of recent loads over the network.

    Measurements expire after some seconds: if a slow network stopped all loading, nothing would
    ever measure its recovery.
    """

    def __init__(self) -> None:
        self._latest: LoadTime | None = None
        self._at_s = 0.0

    def measured(self, now_s: float, first: Arrivals, rest: Arrivals) -> None:
        """Record one load.

        Args:
            now_s: by the event loop's clock.
            first: the blocks that arrived first, since the load began.
            rest: the others, since then.
        """
        # If all arrived at once, latency cannot be distinguished from transfer time.
        bulk = rest if rest.size_bytes and rest.duration_s > 0 else first
        if bulk.duration_s <= 0 or not bulk.size_bytes:
            return
        bytes_per_s = bulk.size_bytes / bulk.duration_s
        latest = LoadTime(max(0.0, first.duration_s - first.size_bytes / bytes_per_s), bytes_per_s)
        before = self.estimate(now_s)
        if before is not None:
            latest = LoadTime(
                before.latency_s + _WEIGHT * (latest.latency_s - before.latency_s),
                before.bytes_per_s + _WEIGHT * (latest.bytes_per_s - before.bytes_per_s),
            )
        self._latest, self._at_s = latest, now_s

    def estimate(self, now_s: float) -> LoadTime | None:
        """The cost of loading now; ``None`` without a recent measurement."""
        return self._latest if now_s - self._at_s <= _FORGOTTEN_AFTER_S else None


def blocks_worth_loading(
    away_bytes: Sequence[int], block_tokens: int, tokens: int, cost: PrefillCost, time: LoadTime
) -> int:
    """How many of a prompt's first blocks to load so that its prefill ends soonest.

    Loading comes first, then the tokens behind are computed. On a tie the smaller number wins.

    Args:
        away_bytes: bytes of each block that are not on this host: 0 for a local block.
        block_tokens: tokens of a block.
        tokens: of the prompt.
        cost: of computing.
        time: of loading.

    Example:
        >>> cost = PrefillCost(token_s=1.0, pair_s=0.0, start_s=0.0)
        >>> fast, slow = LoadTime(0.1, 100.0), LoadTime(0.1, 1.0)
        >>> [blocks_worth_loading([100, 100], 4, 8, cost, time) for time in (fast, slow)]
        [2, 0]
    """
    best, best_s = 0, cost.duration_s(tokens, 0)
    size_bytes = 0
    for number, away in enumerate(away_bytes, 1):
        size_bytes += away
        cached = min(number * block_tokens, tokens)
        whole_s = time.duration_s(size_bytes)
        if cached < tokens:
            whole_s += cost.duration_s(tokens - cached, cached)
        if whole_s < best_s:
            best, best_s = number, whole_s
    return best
