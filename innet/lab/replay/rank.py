"""A host's process of a replay: ``python -m innet.lab.replay.rank SOCKET``

It takes one turn (:mod:`innet.lab.harness`): it joins the pool, serves its requests, each at its
time, and is a home to others until the launcher hangs up.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from pydantic import BaseModel

from innet.errors import KVError
from innet.kv.pool.network import BlockNetwork
from innet.kv.pool.peers import await_members
from innet.kv.worker_network import open_worker_network, tenant_of_job
from innet.lab.harness import Hello, serve_async
from innet.lab.replay.plan import ReplayPlan
from innet.lab.replay.worker import ReplayStatistics, ReplayWorker, SyntheticContents, replay_pool
from innet.lab.traces import Request
from innet.worker import current_worker

TEAM = "replay"
_MEMBERS_S = 60.0


class WrittenRequest(BaseModel):
    """A request of the trace: see :class:`innet.lab.traces.Request`."""

    number: int
    arrival_s: float
    input_tokens: int
    output_tokens: int
    blocks: list[str]
    """Hexadecimal."""


class ReplayTask(BaseModel):
    """The requests of one worker."""

    plan: ReplayPlan
    job: str
    warm_up: int
    """Requests with smaller numbers are not timed."""
    requests: list[WrittenRequest]


class Served(BaseModel):
    """A request has reached its first token."""

    number: int
    begun_s: float
    """Of ``time.monotonic()``."""
    ended_s: float


class ReplayResult(BaseModel):
    """What a worker has counted.

    Attributes:
        statistics: of its timed requests.
        served: blocks that it has given as their home.
    """

    statistics: ReplayStatistics
    served: int


class ReplayWork:
    """One worker's requests, and its part of the pool, which stays open until ``stack`` closes."""

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
            for request in self._task.requests:
                arrival_s = start_s + request.arrival_s * self._task.plan.time_scale
                await asyncio.sleep(max(0.0, arrival_s - time.monotonic()))
                tasks.create_task(self._serve(request, show))

    def report(self) -> ReplayResult:
        """What was counted until now."""
        return ReplayResult(statistics=self._statistics, served=self._pool.statistics().served)

    async def _serve(self, written: WrittenRequest, show: Callable[[BaseModel], None]) -> None:
        timed = written.number >= self._task.warm_up
        statistics = self._statistics if timed else self._untimed
        request = Request(
            written.arrival_s,
            written.input_tokens,
            written.output_tokens,
            tuple(bytes.fromhex(block) for block in written.blocks),
        )
        begun_s = time.monotonic()
        found = await self._worker.first_token(request, statistics)
        show(Served(number=written.number, begun_s=begun_s, ended_s=time.monotonic()))
        await self._worker.keep(request, found, statistics)


async def _all_homes(network: BlockNetwork, homes: set[str]) -> None:
    """Wait until all homes are in the pool: blocks would go elsewhere without them."""
    if not await await_members(network, lambda there: homes <= there.keys(), _MEMBERS_S):
        missing = ", ".join(sorted(homes - network.members().keys()))
        raise KVError(f"{missing} did not join the pool within {_MEMBERS_S:.0f} s")


async def _take_part(path: str, rank: int) -> None:
    async with AsyncExitStack() as stack:
        await serve_async(path, Hello(team=TEAM, rank=rank), ReplayWork(stack))


def main() -> None:
    """Run as the host that the environment says."""
    asyncio.run(_take_part(sys.argv[1], current_worker().rank))


if __name__ == "__main__":
    main()
