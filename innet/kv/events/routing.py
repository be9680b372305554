"""Which of several engines serves a request: in turn, by its prefix, or by where its blocks are."""

from __future__ import annotations

import hashlib
import itertools
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, get_args

import numpy as np

from innet.kv.events.index import Location
from innet.kv.hash_chain import TokenIds
from innet.kv.prefill import LoadTime, PrefillCost

RouterName = Literal["round-robin", "prefix-hash", "pool"]
ROUTERS: Final[tuple[RouterName, ...]] = get_args(RouterName)
_LATELY_KEPT: Final = 0.995
"""Decay of an engine's computed entries with each request: the last 200 requests count most."""
_POINTS: Final = 64
"""Points of an engine on the ring of hashes."""


@dataclass(frozen=True)
class Prompt:
    """A request to place.

    Attributes:
        tokens: of the prompt, or what stands for them in a trace.
        location: where its prefix is; of each engine in order, as :meth:`PrefixIndex.locate` with
            ``members`` gives it.
    """

    tokens: TokenIds
    location: Location


class Router(Protocol):
    """Chooses engines."""

    def choose(self, prompt: Prompt, waits_s: Sequence[float]) -> int:
        """The engine for a request.

        Args:
            prompt: of the request.
            waits_s: queued work of each engine; infinite: the engine is down.
        """


def make_router(name: RouterName, costs: Costs, engines: Sequence[str]) -> Router:
    """The router of that name for these engines."""
    match name:
        case "round-robin":
            return RoundRobin()
        case "prefix-hash":
            return PrefixHash(engines, costs.prefix_tokens)
        case "pool":
            return PoolAware(costs)


@dataclass(frozen=True)
class Costs:
    """What serving a prompt takes.

    Attributes:
        prefill: of computing.
        load: of loading blocks of other members; ``None``: they cannot be loaded.
        token_bytes: of a token's keys and values.
        token_scale: tokens that one entry of a prompt stands for, as in traces of block ids.
        prefix_tokens: first entries of a prompt that ``prefix-hash`` hashes.
    """

    prefill: PrefillCost = field(default_factory=PrefillCost)
    load: LoadTime | None = None
    token_bytes: int = 128 << 10
    token_scale: int = 1
    prefix_tokens: int = 512

    def serve_s(self, tokens: int, own: int, pool: int) -> float:
        """Seconds to the first token, with ``own`` entries here and ``pool`` somewhere."""
        scale = self.token_scale
        if self.load is not None and pool > own:
            away_bytes = (pool - own) * scale * self.token_bytes
            loaded = self.load.duration_s(away_bytes) + self._compute_s(tokens, pool)
            return min(loaded, self._compute_s(tokens, own))
        return self._compute_s(tokens, own)

    def _compute_s(self, tokens: int, cached: int) -> float:
        scale = self.token_scale
        new = max(1, (tokens - cached) * scale)  # the last token of a prompt is always computed
        return self.prefill.duration_s(new, cached * scale)


class RoundRobin:
    """Each engine in turn."""

    def __init__(self) -> None:
        self._turns = itertools.count()

    def choose(self, prompt: Prompt, waits_s: Sequence[float]) -> int:
        """See :class:`Router`."""
        up = _up(waits_s)
        return up[next(self._turns) % len(up)]


class PrefixHash:
    """Consistent hashing of the first tokens: equal beginnings go to one engine."""

    def __init__(self, engines: Sequence[str], prefix_tokens: int) -> None:
        """
        Args:
            engines: names of engines; adding or removing one moves no prompts between the others.
            prefix_tokens: that are hashed.
        """
        self._prefix = prefix_tokens
        self._ring = sorted(
            (_point(f"{engine}/{point}".encode()), number)
            for number, engine in enumerate(engines)
            for point in range(_POINTS)
        )

    def choose(self, prompt: Prompt, waits_s: Sequence[float]) -> int:
        """See :class:`Router`."""
        up = set(_up(waits_s))
        first = np.asarray(prompt.tokens[: self._prefix], np.int64).tobytes()
        start = bisect(self._ring, (_point(first), 0))
        ring = (*self._ring[start:], *self._ring[:start])
        return next(engine for _, engine in ring if engine in up)


class PoolAware:
    """The engine where a request costs least time: until its first token, and later requests'.

    Until the first token, that is the wait and the time of serving. Blocks that are computed
    displace others, which cost about as much again if they are requested first. That is more
    likely the faster an engine's memory is overwritten. So the time of serving counts ``1 + r``
    times, with the entries that the engine computed lately in relation to the mean as ``r``.
    """

    def __init__(self, costs: Costs) -> None:
        """``costs`` of serving a prompt."""
        self._costs = costs
        self._computed: list[float] = []
        """Entries that each engine computed lately."""

    def choose(self, prompt: Prompt, waits_s: Sequence[float]) -> int:
        """See :class:`Router`."""
        tokens, pool = len(prompt.tokens), prompt.location.tokens
        own = [holding.memory_tokens for holding in prompt.location.holdings]
        computed = self._computed or [0.0] * len(own)
        mean = sum(computed) / len(computed) or 1.0

        def cost(engine: int) -> tuple[float, float]:
            serve_s = self._costs.serve_s(tokens, own[engine], pool)
            relation = computed[engine] / mean
            return waits_s[engine] + serve_s * (1 + relation), relation

        chosen = min(_up(waits_s), key=cost)
        self._computed = [_LATELY_KEPT * entries for entries in computed]
        self._computed[chosen] += tokens - own[chosen]
        return chosen


def _up(waits_s: Sequence[float]) -> list[int]:
    up = [engine for engine, wait_s in enumerate(waits_s) if wait_s != float("inf")]
    return up or list(range(len(waits_s)))


def _point(text: bytes) -> int:
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big")
