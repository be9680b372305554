"""How fast blocks have come lately, and how many are worth waiting for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from innet.kv.prefill import PrefillCost

_WEIGHT = 0.25
_FORGOTTEN_AFTER_S = 10.0


@dataclass(frozen=True)
class LoadTime:
    """What loading costs.

    Attributes:
        latency_s: until the first bytes come.
        bytes_per_s: from then on.
    """

    latency_s: float
    bytes_per_s: float

    def duration_s(self, size_bytes: int) -> float:
        """Seconds to load so much; nothing takes none."""
        return self.latency_s + size_bytes / self.bytes_per_s if size_bytes else 0.0


@dataclass(frozen=True)
class Arrivals:
    """Blocks that have come.

    Attributes:
        duration_s: that they took.
        size_bytes: of them.
    """

    duration_s: float
    size_bytes: int


class LoadSpeed:
    """What loads over the network have cost: averages of the last few, weighted towards the latest.

    What is older than some seconds is forgotten: were the network found slow, nothing would be
    loaded, and its recovery never be seen.
    """

    def __init__(self) -> None:
        self._latest: LoadTime | None = None
        self._at_s = 0.0

    def measured(self, now_s: float, first: Arrivals, rest: Arrivals) -> None:
        """Blocks have been loaded.

        Args:
            now_s: of the event loop's clock.
            first: those that came first, since the load began.
            rest: the others, since then.
        """
        # All at once: nothing tells how much of the time was latency.
        bulk = rest if rest.size_bytes and rest.duration_s > 0 else first
        if bulk.duration_s <= 0:
            return
        latest = LoadTime(first.duration_s, bulk.size_bytes / bulk.duration_s)
        before = self.estimate(now_s)
        if before is not None:
            latest = LoadTime(
                before.latency_s + _WEIGHT * (latest.latency_s - before.latency_s),
                before.bytes_per_s + _WEIGHT * (latest.bytes_per_s - before.bytes_per_s),
            )
        self._latest, self._at_s = latest, now_s

    def estimate(self, now_s: float) -> LoadTime | None:
        """What loading costs at present; ``None``: that has to be tried."""
        return self._latest if now_s - self._at_s <= _FORGOTTEN_AFTER_S else None


def blocks_worth_loading(
    away_bytes: Sequence[int], block_tokens: int, tokens: int, cost: PrefillCost, time: LoadTime
) -> int:
    """How many of a prompt's blocks, from the first on, to load, so that its prefill ends soonest.

    Loading comes first, then the tokens behind are computed. The first of two equal ends counts.

    Args:
        away_bytes: of each block what is not on this host: 0 for one that is here.
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
