"""Serves requests on one host: loads the cached prefix of each prompt, and computes the rest.

:class:`ReplayWorker` runs in simulations and on emulated networks. There,
``python -m innet.lab.replay.worker SOCKET`` is a host's process: it takes one turn
(:mod:`innet.lab.harness`), in which it joins the pool and serves its requests, each at its time. It
keeps blocks for other hosts until the conductor closes the connection.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel

from innet.errors import KVError
from innet.kv.names import NO_MODEL_DIGEST, BlockFamily, BlockKey
from innet.kv.pool import BlockPool, Cause, Place
from innet.kv.pool.network import BlockNetwork, Contents
from innet.kv.pool.peers import await_members
from innet.kv.pool_member import tenant_of_job
from innet.kv.worker_network import open_worker_network
from innet.lab.compare.measurement import BlockPlaces
from innet.lab.replay.plan import Design, ReplayPlan, home_weights, requests_of
from innet.lab.replay.single_store import ReferenceRates
from innet.lab.traces import BLOCK_TOKENS, PromptRequest
from innet.lab.turns import Joined, serve_async
from innet.topology import Topology
from innet.worker import current_worker

if TYPE_CHECKING:
    from innet.lab.workload.model import KvJob

_HERE = frozenset({Place.LOCAL_MEMORY, Place.LOCAL_DISK, Place.HOME_MEMORY, Place.HOME_DISK})


@dataclass
class ReplayStatistics:
    """Counters of a worker.

    Attributes:
        local: blocks found in the memory of the requesting host.
        fetched: blocks received over the network.
        missed: blocks that were computed.
        late: fetches that exceeded their deadline; the blocks count as missed.
        puts: blocks that a home received.
        lost_puts: blocks that a home did not receive.
        wrong: blocks with another block's contents.
    """

    local: int = 0
    fetched: int = 0
    missed: int = 0
    late: int = 0
    puts: int = 0
    lost_puts: int = 0
    wrong: int = 0

    def add(self, other: ReplayStatistics) -> None:
        """Add the counters of another worker."""
        for counter in fields(self):
            total = getattr(self, counter.name) + getattr(other, counter.name)
            setattr(self, counter.name, total)

    def count(self, place: Place) -> None:
        """Count a block of a prefix that was found at ``place``."""
        if place in _HERE:
            self.local += 1
        else:
            self.fetched += 1


class Replay:
    """A replay of one job by one design: its workers, its plan and its requests.

    Attributes:
        hosts: of the workers.
        members: the hosts in the pool: workers and homes.
        plan: how the design divides the memory.
        requests: the untimed ones, then the timed ones.
    """

    def __init__(
        self, job: KvJob, design: Design, topology: Topology, put_timeout_s: float
    ) -> None:
        """Args:
        job: the job.
        design: of this run.
        topology: has the hosts.
        put_timeout_s: deadline of a put at a home.
        """
        written = job.written
        self.hosts = topology.ranks_on(written.hosts or topology.hosts)
        homes = home_weights(written, job.name, self.hosts, topology.hosts)
        self.members = tuple(dict.fromkeys((*self.hosts, *homes)))
        self.plan = ReplayPlan.of(written, design, len(self.hosts), homes, put_timeout_s)
        self.requests = job.requests[: written.warm_up + written.repetitions]
        self._written = written

    @property
    def size_bytes(self) -> int:
        """The cluster's memory for blocks; where it is unlimited, the size of all blocks."""
        blocks = {block for request in self.requests for block in request.blocks}
        return self._written.cache or self._written.block * len(blocks)

    def requests_of(self, rank: int) -> Iterator[tuple[int, PromptRequest]]:
        """The requests of a worker, with their numbers in the trace."""
        return requests_of(rank, len(self.hosts), self.requests, self._written.assign)

    def places(
        self, statistics: ReplayStatistics, served: int, switch_hits: Mapping[str, int]
    ) -> BlockPlaces:
        """The places of the blocks of the timed requests.

        Args:
            statistics: of all workers.
            served: blocks that members have sent to the workers that requested them.
            switch_hits: of each content store.
        """
        written = self._written
        homes = min(served, statistics.fetched)
        on_path = statistics.fetched - homes
        hits = sum(switch_hits.values())
        references = ReferenceRates.of(
            self.requests, written.cache_blocks, self.plan.policy, written.warm_up
        )
        return BlockPlaces(
            local=statistics.local,
            switches=on_path,
            by_switch={
                switch: on_path * count / hits for switch, count in switch_hits.items() if count
            },
            homes=homes,
            computed=statistics.missed,
            late=statistics.late,
            puts=statistics.puts,
            lost_puts=statistics.lost_puts,
            one_store_rate=references.one_store,
            belady_rate=references.belady,
            ideal_rate=references.ideal,
        )


class SyntheticContents:
    """Pseudo-random contents that differ between blocks, so that fetched blocks can be verified.

    Example:
        >>> contents = SyntheticContents(1000)
        >>> contents.is_of(contents.of(b"a"), b"a"), contents.is_of(contents.of(b"a"), b"b")
        (True, False)

    Attributes:
        size_bytes: of each block.
    """

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes

    def of(self, block: bytes) -> Contents:
        """The contents of the block with the hash ``block``."""
        random = np.random.Generator(np.random.SFC64(int.from_bytes(block, "big")))
        return np.frombuffer(random.bytes(self.size_bytes), np.uint8)

    def is_of(self, contents: Contents, block: bytes) -> bool:
        """Whether ``contents`` are those of the block with the hash ``block``."""
        return np.array_equal(contents, self.of(block))


def replay_key(tenant: str, block: bytes) -> BlockKey:
    """The key of a trace's block; ``tenant`` is the tenant's name component."""
    return BlockKey(BlockFamily(tenant, NO_MODEL_DIGEST, "replay", 0, 1), block)


@asynccontextmanager
async def replay_pool(
    network: BlockNetwork, plan: ReplayPlan, contents: SyntheticContents
) -> AsyncIterator[BlockPool]:
    """A host's pool, as the plan describes it; closes at the end of the block."""
    room_bytes = await _room_bytes(network, contents)
    local, offered = plan.stores(network.node, room_bytes)
    pool = BlockPool(network, local=local, offered=offered, settings=plan.pool_settings)
    async with pool:
        yield pool


async def _room_bytes(network: BlockNetwork, contents: SyntheticContents) -> int:
    """Memory of a block in a tier; its manifest has the same length for all blocks."""
    key = replay_key(network.tenant, bytes(32))
    block = await network.publish(key.name, contents.of(key.block_hash))
    network.withdraw(key.name)
    return block.memory_bytes


class ReplayWorker:
    """One host's worker, which serves its requests one after the other, in order of arrival.

    It looks up a request's prefix when it begins the request, as inference engines do: it then
    finds blocks that earlier requests have computed.
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
            tenant: name component of the tenant.
            plan: of the replay.
            contents: of the blocks.
            pool: returns the host's present pool; ``None`` while the host is down.
            compute: computes for the given seconds.
        """
        self._tenant = tenant
        self._plan = plan
        self._contents = contents
        self._pool = pool
        self._compute = compute
        self._turn = asyncio.Lock()
        self._being_put: set[bytes] = set()

    async def first_token(self, request: PromptRequest, statistics: ReplayStatistics) -> int:
        """Serve a request up to its first token; returns the number of blocks not computed.

        Call :meth:`keep` afterwards.
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
        self, request: PromptRequest, computed_from: int, statistics: ReplayStatistics
    ) -> None:
        """Put the computed blocks of a request into the pool."""
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
        """Load the longest prefix in the pool; returns its number of blocks."""
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


TEAM = "replay"
_MEMBERS_S = 60.0


class ReplayTask(BaseModel):
    """The requests of one worker."""

    plan: ReplayPlan
    job: str
    warm_up: int
    """Requests with smaller numbers are not timed."""
    requests: list[tuple[int, PromptRequest]]
    """With their numbers in the trace."""


class Served(BaseModel):
    """Progress: a request has reached its first token."""

    number: int
    begun_s: float
    """The start, by ``time.monotonic()``."""
    ended_s: float


class ReplayResult(BaseModel):
    """The counters of a worker.

    Attributes:
        statistics: of its timed requests.
        served: blocks that it has sent to the workers that requested them.
    """

    statistics: ReplayStatistics
    served: int


class ReplayWork:
    """A worker's turn; its membership of the pool lasts until ``stack`` closes."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._statistics = ReplayStatistics()
        self._untimed = ReplayStatistics()

    async def prepare(self, turn: int, task: dict[str, Any]) -> None:
        """Join the pool, and wait for all homes."""
        self._task = ReplayTask.model_validate(task)
        plan, host = self._task.plan, current_worker()
        tenant = tenant_of_job(host, self._task.job)
        contents = SyntheticContents(plan.block_bytes)
        offered_bytes = plan.offered_bytes(host.config.node)
        network = await self._stack.enter_async_context(
            open_worker_network(host, tenant, capacity_bytes=offered_bytes)
        )
        self._pool = await self._stack.enter_async_context(replay_pool(network, plan, contents))
        self._worker = ReplayWorker(
            tenant.component, plan, contents, lambda: self._pool, asyncio.sleep
        )
        await _all_homes(network, set(plan.home_weights))

    async def run(self, start_s: float, show: Callable[[BaseModel], None]) -> None:
        """Serve all requests."""
        async with asyncio.TaskGroup() as tasks:
            for number, request in self._task.requests:
                arrival_s = start_s + request.arrival_s * self._task.plan.time_scale
                await asyncio.sleep(max(0.0, arrival_s - time.monotonic()))
                tasks.create_task(self._serve(number, request, show))

    def report(self) -> ReplayResult:
        """The counters so far."""
        return ReplayResult(statistics=self._statistics, served=self._pool.statistics().delivered)

    async def _serve(
        self, number: int, request: PromptRequest, show: Callable[[BaseModel], None]
    ) -> None:
        timed = number >= self._task.warm_up
        statistics = self._statistics if timed else self._untimed
        begun_s = time.monotonic()
        found = await self._worker.first_token(request, statistics)
        show(Served(number=number, begun_s=begun_s, ended_s=time.monotonic()))
        await self._worker.keep(request, found, statistics)


async def _all_homes(network: BlockNetwork, homes: set[str]) -> None:
    """Wait until all homes are in the pool; without them, blocks would have other homes."""
    if not await await_members(network, lambda there: homes <= there.keys(), _MEMBERS_S):
        missing = ", ".join(sorted(homes - network.members().keys()))
        raise KVError(f"{missing} did not join the pool within {_MEMBERS_S:.0f} s")


async def _take_part(path: str, rank: int) -> None:
    async with AsyncExitStack() as stack:
        await serve_async(path, Joined(team=TEAM, rank=rank), ReplayWork(stack))


def main() -> None:
    """Run as the rank that the environment names."""
    asyncio.run(_take_part(sys.argv[1], current_worker().rank))


if __name__ == "__main__":
    main()
