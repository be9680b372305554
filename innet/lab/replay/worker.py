"""Serves requests on one host: loads what is there of a prompt's prefix, computes the rest.

The same worker is in simulations and in processes of a real network: it knows a pool, and a way to
let time pass.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from innet.kv.pool import BlockPool, Cause, Place
from innet.lab.replay.contents import SyntheticContents
from innet.lab.replay.member import replay_key
from innet.lab.replay.plan import ReplayPlan
from innet.lab.replay.statistics import ReplayStatistics
from innet.lab.traces import Request
from innet.lab.traces.mooncake import BLOCK_TOKENS


class ReplayWorker:
    """One host's worker: it serves one request after the other, in the order of their arrival.

    A request's prefix is looked up when its turn comes, as engines do when they schedule it: by
    then, blocks that requests before it have computed can be there.
    """

    def __init__(
        self,
        tenant: str,
        plan: ReplayPlan,
        contents: SyntheticContents,
        pool: Callable[[], BlockPool | None],
        compute: Callable[[float], Awaitable[None]],
    ) -> None:
        """
        Args:
            tenant: the component of names.
            plan: of the replay.
            contents: of the blocks.
            pool: the host's pool, as it is now; ``None``: the host is down, and has nothing.
            compute: lets so many seconds of computing pass.
        """
        self._tenant = tenant
        self._plan = plan
        self._contents = contents
        self._pool = pool
        self._compute = compute
        self._turn = asyncio.Lock()
        self._being_put: set[bytes] = set()

    async def first_token(self, request: Request, statistics: ReplayStatistics) -> int:
        """Serve a request up to the first token of its answer; how many blocks were not computed.

        :meth:`keep` follows.
        """
        async with self._turn:
            found = await self._load(request.blocks, statistics)
            statistics.missed += len(request.blocks) - found
            cached_tokens = min(found * BLOCK_TOKENS, request.input_tokens - 1)
            await self._compute(
                self._plan.prefill.duration_s(request.input_tokens - cached_tokens, cached_tokens)
            )
            self._being_put.update(request.blocks[found:])
        return found

    async def keep(
        self, request: Request, computed_from: int, statistics: ReplayStatistics
    ) -> None:
        """Put the blocks of a request that were computed into the pool."""
        waiting = deque(list(enumerate(request.blocks))[computed_from:])

        async def put_some() -> None:
            while waiting:
                depth, block = waiting.popleft()
                try:
                    await self._put(depth, block, statistics)
                finally:
                    self._being_put.discard(block)

        await asyncio.gather(*(put_some() for _ in range(self._plan.window)))

    async def _put(self, depth: int, block: bytes, statistics: ReplayStatistics) -> None:
        pool = self._pool()
        if pool is None:
            return
        copies = await pool.put(
            replay_key(self._tenant, block), self._contents.of(block), depth=depth
        )
        homes = min(self._plan.replicas, len(self._plan.home_blocks))
        statistics.puts += copies
        statistics.lost_puts += homes - copies

    async def _load(self, blocks: tuple[bytes, ...], statistics: ReplayStatistics) -> int:
        """Load the longest prefix that is anywhere: how many blocks it has."""
        under_way: deque[asyncio.Task[Place | Cause]] = deque()
        found = 0
        try:
            while found < len(blocks):
                while len(under_way) < min(self._plan.window, len(blocks) - found):
                    block = blocks[found + len(under_way)]
                    under_way.append(asyncio.ensure_future(self._find(block, statistics)))
                end = await under_way[0]
                if not isinstance(end, Place):
                    statistics.late += end is Cause.LATE
                    break
                under_way.popleft()
                statistics.count(end)
                found += 1
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
        return found

    async def _find(self, block: bytes, statistics: ReplayStatistics) -> Place | Cause:
        pool = self._pool()
        if pool is None:
            return Cause.UNREACHABLE
        if block in self._being_put:
            return Place.LOCAL_MEMORY
        contents, where = await pool.look_up(replay_key(self._tenant, block))
        if contents is not None and not self._contents.is_of(contents, block):
            statistics.wrong += 1
        return where
