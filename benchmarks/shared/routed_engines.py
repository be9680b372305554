"""Engines behind a router, in virtual time: queues, their caches, and blocks of each other.

An engine computes one prompt after the other; decoding is not modelled. It keeps the blocks that it
computed or loaded, up to its capacity. The router's index learns of them by the events that a
pool's members publish, when the engine has computed them.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from innet.kv.events.index import PrefixIndex
from innet.kv.events.routing import Costs, Prompt, Router
from innet.kv.events.wire import BlocksRemoved, BlocksStored
from innet.kv.hash_chain import HASH_BYTES
from innet.lab.replay.single_store import BlockStore
from innet.lab.traces import PromptRequest

MODEL = "m"


@dataclass
class Outcome:
    """What a replay measured.

    Attributes:
        blocks: requested.
        hits: of them, those that the engine had or loaded.
        first_token_s: of each request.
    """

    blocks: int = 0
    hits: int = 0
    first_token_s: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        """The rate of hits, and the times."""
        times = np.array(self.first_token_s)
        return {
            "hit_rate": self.hits / self.blocks,
            "first_token_mean_s": float(times.mean()),
            "first_token_p50_s": float(np.percentile(times, 50)),
            "first_token_p95_s": float(np.percentile(times, 95)),
        }


@dataclass
class _Engine:
    name: str
    store: BlockStore
    queue: deque[tuple[float, float, tuple[int, ...]]] = field(default_factory=deque)
    """When each request arrived, what it was estimated to take, and its prompt."""
    free_s: float = 0.0
    waits_s: float = 0.0
    """Estimated work in the queue, without what is computed now."""
    is_busy: bool = False


class RoutedEngines:
    """Engines, a router and its index."""

    def __init__(
        self, engines: int, blocks: int, costs: Costs, make: Callable[[Sequence[str]], Router]
    ) -> None:
        """
        Args:
            engines: how many.
            blocks: that each has room for.
            costs: of serving; entries of prompts are blocks.
            make: makes the router, given the engines' names.
        """
        names = [f"e{number}" for number in range(engines)]
        self._engines = [_Engine(name, BlockStore(blocks, "second-use")) for name in names]
        self._names = names
        self._costs = costs
        self._router = make(names)
        self._events: list[tuple[float, int, _Engine, float, tuple[int, ...]]] = []
        self._order = itertools.count()
        self.index = PrefixIndex()
        self.outcome = Outcome()

    def replay(self, requests: Sequence[PromptRequest]) -> Outcome:
        """Serve all requests at their times."""
        for request in requests:
            self._finish_until(request.arrival_s)
            prompt = tuple(int.from_bytes(block, "big") for block in request.blocks)
            self._arrive(request.arrival_s, prompt)
        self._finish_until(float("inf"))
        return self.outcome

    def _arrive(self, now_s: float, prompt: tuple[int, ...]) -> None:
        location = self.index.locate(MODEL, prompt, members=self._names)
        waits = [max(0.0, each.free_s - now_s) + each.waits_s for each in self._engines]
        engine = self._engines[self._router.choose(Prompt(prompt, location), waits)]
        estimate_s = self._serve_s(engine, prompt)[0]
        engine.queue.append((now_s, estimate_s, prompt))
        engine.waits_s += estimate_s
        if not engine.is_busy:
            self._start(engine, now_s)

    def _serve_s(self, engine: _Engine, prompt: tuple[int, ...]) -> tuple[float, int]:
        """The time, and the blocks that are not computed."""
        location = self.index.locate(MODEL, prompt, members=[engine.name])
        own, pool = location.holdings[0].tokens, location.tokens
        with_own = self._costs.serve_s(len(prompt), own, own)
        with_pool = self._costs.serve_s(len(prompt), own, pool)
        return with_pool, pool if with_pool < with_own else own

    def _start(self, engine: _Engine, now_s: float) -> None:
        arrived_s, estimate_s, prompt = engine.queue.popleft()
        engine.is_busy = True
        engine.waits_s = engine.waits_s - estimate_s if engine.queue else 0.0
        duration_s, hits = self._serve_s(engine, prompt)
        engine.free_s = now_s + duration_s
        self.outcome.blocks += len(prompt)
        self.outcome.hits += hits
        heapq.heappush(self._events, (engine.free_s, next(self._order), engine, arrived_s, prompt))

    def _finish_until(self, end_s: float) -> None:
        while self._events and self._events[0][0] <= end_s:
            now_s, _, engine, arrived_s, prompt = heapq.heappop(self._events)
            self.outcome.first_token_s.append(now_s - arrived_s)
            self._keep(engine, prompt)
            engine.is_busy = False
            if engine.queue:
                self._start(engine, now_s)

    def _keep(self, engine: _Engine, prompt: tuple[int, ...]) -> None:
        parent: int | None = None
        for depth, block in enumerate(prompt):
            packed = block.to_bytes(HASH_BYTES, "big")
            is_new = packed not in engine.store
            victims = engine.store.put(packed, depth)
            if is_new:  # a trace's ids stand for all blocks before, so they are hashes as well
                stored = BlocksStored((block,), parent, (block,), 1)
                self.index.apply(engine.name, MODEL, [stored])
            for victim in victims:
                removed = BlocksRemoved((int.from_bytes(victim, "big"),))
                self.index.apply(engine.name, MODEL, [removed])
            parent = block
