"""A member of a pool: rank 0 gives a block, which rank 1 fetches again and again."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import numpy as np

from innet.kv.names import BlockFamily, BlockKey
from innet.kv.node_network import NodeBlockNetwork
from innet.kv.pool.network import Cause
from innet.kv.pool_member import tenant_of_job
from innet.kv.worker_network import open_worker_network
from innet.worker import current_worker

TIMEOUT_S = 1.0
PAUSE_S = 0.05
STOP = Path(sys.argv[1])


async def fetch_again_and_again(network: NodeBlockNetwork, name: str) -> None:
    while not STOP.exists():  # noqa: ASYNC240 - faults happen meanwhile
        end = await network.fetch(name, "h0", TIMEOUT_S)
        found = end.value if isinstance(end, Cause) else "here"
        print(f"{found} among {', '.join(sorted(network.members()))}", flush=True)
        await asyncio.sleep(PAUSE_S)


async def main() -> None:
    worker = current_worker()
    tenant = tenant_of_job(worker, "acme")
    name = BlockKey(BlockFamily(tenant.component, "00ff", "bf16", 0, 8), bytes(32)).name
    async with open_worker_network(worker, tenant, capacity_bytes=1 + worker.rank) as network:
        if worker.rank == 0:
            await network.publish(name, np.arange(50_000, dtype=np.uint8))
            while not STOP.exists():  # noqa: ASYNC110, ASYNC240
                await asyncio.sleep(PAUSE_S)
        else:
            await fetch_again_and_again(network, name)


asyncio.run(main())
