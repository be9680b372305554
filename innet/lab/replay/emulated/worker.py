"""A host's process of a replay: ``python -m innet.lab.replay.emulated.worker PARTS``

``PARTS`` is a directory with a :class:`~innet.lab.replay.emulated.conversation.Part` for each host.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from innet.errors import KVError
from innet.kv.pool.joining import await_members
from innet.kv.pool.network import BlockNetwork
from innet.kv.worker_network import open_worker_network, tenant_of_job
from innet.lab.replay.contents import SyntheticContents
from innet.lab.replay.emulated.conversation import Done, Go, Part, Ready, Served, WrittenRequest
from innet.lab.replay.member import replay_pool
from innet.lab.replay.statistics import ReplayStatistics
from innet.lab.replay.worker import ReplayWorker
from innet.lab.traces import Request
from innet.worker import current_worker

_MEMBERS_S = 60.0


class HostReplay:
    """One worker's requests, each at its time."""

    def __init__(self, part: Part, worker: ReplayWorker, writer: asyncio.StreamWriter) -> None:
        self._part = part
        self._worker = worker
        self._writer = writer
        self.statistics = ReplayStatistics()
        self._untimed = ReplayStatistics()

    async def run(self, start_s: float) -> None:
        """Serve all, from ``start_s`` of the monotonic clock on."""
        async with asyncio.TaskGroup() as tasks:
            for request in self._part.requests:
                arrival_s = start_s + request.arrival_s * self._part.plan.time_scale
                await asyncio.sleep(max(0.0, arrival_s - time.monotonic()))
                tasks.create_task(self._serve(request))

    async def _serve(self, written: WrittenRequest) -> None:
        timed = written.number >= self._part.warm_up
        statistics = self.statistics if timed else self._untimed
        request = Request(
            written.arrival_s,
            written.input_tokens,
            written.output_tokens,
            tuple(bytes.fromhex(block) for block in written.blocks),
        )
        begun_s = time.monotonic()
        found = await self._worker.first_token(request, statistics)
        served = Served(number=written.number, begun_s=begun_s, ended_s=time.monotonic())
        self._writer.write(served.line())
        await self._worker.keep(request, found, statistics)


async def replay(part: Part) -> None:
    """Be a worker, and a home, until the launcher hangs up."""
    host = current_worker()
    name, plan = host.config.node, part.plan
    contents = SyntheticContents(plan.block_bytes)
    tenant = tenant_of_job(host, part.job)
    reader, writer = await asyncio.open_unix_connection(part.socket)
    async with (
        open_worker_network(host, tenant, capacity_bytes=plan.offered_bytes(name)) as network,
        replay_pool(network, plan, contents) as pool,
    ):
        await _all_homes(network, set(plan.home_weights))
        writer.write(Ready(host=name).line())
        line = await reader.readline()
        if line:
            go = Go.model_validate_json(line)
            worker = ReplayWorker(tenant.component, plan, contents, lambda: pool, asyncio.sleep)
            own = HostReplay(part, worker, writer)
            await own.run(go.start_s)
            served = pool.statistics().served
            writer.write(Done(statistics=own.statistics, served=served).line())
            await reader.read()
    writer.close()


async def _all_homes(network: BlockNetwork, homes: set[str]) -> None:
    """Wait until all homes are in the pool: blocks would go elsewhere without them."""
    if not await await_members(network, lambda there: homes <= there.keys(), _MEMBERS_S):
        missing = ", ".join(sorted(homes - network.members().keys()))
        raise KVError(f"{missing} did not join the pool within {_MEMBERS_S:.0f} s")


def main() -> None:
    """Run as the host that the environment says."""
    path = Path(sys.argv[1]) / f"{current_worker().config.node}.json"
    asyncio.run(replay(Part.model_validate_json(path.read_bytes())))


if __name__ == "__main__":
    main()
