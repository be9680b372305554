"""A rank: ``python -m innet.lab.compare.block_stores.own_rank SOCKET NAME OUTSTANDING BYTES``

The first is the client, the second the home of all blocks. ``NAME``: what the contest calls them.
"""

from __future__ import annotations

import asyncio
import sys

from innet.kv.pool import BlockPool, MemoryTier, PoolSettings, TieredStore
from innet.kv.worker_network import open_worker_network, tenant_of_job
from innet.lab.compare.block_stores.messages import Hello
from innet.lab.compare.block_stores.own_client import TENANT, OwnClient
from innet.lab.compare.block_stores.worker import take_turns
from innet.worker import current_worker


async def be_home(path: str, name: str, outstanding: int, offered_bytes: int) -> None:
    """Keep blocks until the contest hangs up."""
    worker = current_worker()
    reader, writer = await asyncio.open_unix_connection(path)
    async with (
        open_worker_network(
            worker, tenant_of_job(worker, TENANT), capacity_bytes=offered_bytes
        ) as network,
        BlockPool(
            network,
            local=TieredStore(MemoryTier(0)),
            offered=TieredStore(MemoryTier(offered_bytes)),
            settings=PoolSettings(window=outstanding),
        ),
    ):
        writer.write(Hello(store=f"{name}_home", version=OwnClient.version).line())
        await reader.read()
    writer.close()


def main() -> None:
    """Run as the rank that the environment says."""
    path, name = sys.argv[1:3]
    outstanding, offered_bytes = map(int, sys.argv[3:])
    if current_worker().rank == 0:
        take_turns(name, path, lambda: OwnClient(outstanding))
    else:
        asyncio.run(be_home(path, name, outstanding, offered_bytes))


if __name__ == "__main__":
    main()
