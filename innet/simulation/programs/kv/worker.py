"""Serves requests on one host: loads what is there of a prompt's prefix, computes the rest."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from innet.kv.block_store import BlockStore
from innet.kv.prefill import PrefillCost
from innet.kv.replay.statistics import ReplayStatistics
from innet.kv.traces import Request
from innet.kv.traces.mooncake import BLOCK_TOKENS
from innet.simulation.processors import Processors
from innet.simulation.programs.kv.homes import Homes
from innet.simulation.programs.kv.transfers import BlockTransfers, Fetched


@dataclass(frozen=True)
class Loading:
    """How blocks are loaded.

    Attributes:
        window_blocks: asked for at once by a request.
        deadline_s: of a block; it is computed when it has not come by then.
    """

    window_blocks: int
    deadline_s: float


class Worker:
    """One host's worker. Requests load at the same time; they compute one after the other."""

    def __init__(
        self,
        host: str,
        memory: BlockStore,
        homes: Homes,
        transfers: BlockTransfers,
        processors: Processors,
        prefill: PrefillCost,
        loading: Loading,
    ) -> None:
        """``memory`` is for blocks that this worker alone uses."""
        self.host = host
        self._memory = memory
        self._homes = homes
        self._transfers = transfers
        self._processors = processors
        self._prefill = prefill
        self._loading = loading
        self._computing = asyncio.Lock()

    async def first_token(self, request: Request, statistics: ReplayStatistics) -> int:
        """Come to the first token of a request's answer; how many blocks need not be computed."""
        found = await self._load(request.blocks, statistics)
        statistics.missed += len(request.blocks) - found
        cached_tokens = min(found * BLOCK_TOKENS, request.input_tokens - 1)
        async with self._computing:
            duration_s = self._prefill.duration_s(
                request.input_tokens - cached_tokens, cached_tokens
            )
            await self._processors.compute(self.host, duration_s)
        return found

    async def keep(
        self, blocks: Sequence[bytes], computed_from: int, statistics: ReplayStatistics
    ) -> None:
        """Keep the blocks of a request here, and bring those that were computed to their homes."""
        for depth, block in enumerate(blocks):
            self._memory.put(block, depth)
        waiting = deque(list(enumerate(blocks))[computed_from:])

        async def put_some() -> None:
            while waiting:
                depth, block = waiting.popleft()
                kept, lost = await self._homes.put(self.host, block, depth)
                statistics.puts += kept
                statistics.lost_puts += lost

        await asyncio.gather(*(put_some() for _ in range(self._loading.window_blocks)))

    def lose_memory(self) -> None:
        """The host has lost all that it had."""
        self._memory.clear()

    async def _load(self, blocks: Sequence[bytes], statistics: ReplayStatistics) -> int:
        """Load the longest prefix that is anywhere: how many blocks it has."""
        under_way: deque[asyncio.Task[Fetched] | None] = deque()
        found = 0
        try:
            while found < len(blocks):
                while len(under_way) < min(self._loading.window_blocks, len(blocks) - found):
                    under_way.append(self._begin(blocks[found + len(under_way)]))
                task = under_way[0]
                end = Fetched.HERE if task is None else await task
                if end is not Fetched.HERE:
                    statistics.late += end is Fetched.LATE
                    break
                under_way.popleft()
                if task is None:
                    statistics.local += 1
                else:
                    statistics.fetched += 1
                found += 1
        finally:
            for task in under_way:
                if task is not None:
                    task.cancel()
        return found

    def _begin(self, block: bytes) -> asyncio.Task[Fetched] | None:
        """Ask for a block, unless it is on this host."""
        up = self._transfers.is_up(self.host)
        if up and (self._memory.use(block) or self._homes.use(self.host, block)):
            return None
        return asyncio.ensure_future(self._fetch(block))

    async def _fetch(self, block: bytes) -> Fetched:
        end = Fetched.ABSENT
        for home in self._homes.of(block):
            if home == self.host:
                continue
            end = await self._transfers.fetch(self.host, home, block, self._loading.deadline_s)
            if end is Fetched.HERE:
                break
        return end
