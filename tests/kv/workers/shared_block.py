"""A worker with a tenant's secret: `publisher` gives a block, `reader` gets it and is to be killed.

`outsider` asks without being in the pool, as a program could that has got hold of a block's name.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import numpy as np

from innet._native import _core
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.node_network import NodeBlockNetwork
from innet.kv.pool.network import Sealed
from innet.kv.tenant import Tenant
from innet.kv.worker_network import open_worker_network
from innet.worker import current_worker

TIMEOUT_S = 30.0
ROLE, TENANT = sys.argv[1], Tenant.from_file("acme", Path(sys.argv[2]))
NAME = BlockKey(BlockFamily(TENANT.component, "00ff", "bf16", 0, 8), bytes(32)).name
CONTENTS = np.arange(300_000, dtype=np.uint32).view(np.uint8)


def say(text: str) -> None:
    print(text, flush=True)


async def until_members(network: NodeBlockNetwork, members: dict[str, int]) -> None:
    while network.members() != members:  # noqa: ASYNC110 - nobody tells of a change
        await asyncio.sleep(0.01)
    say(f"members: {', '.join(sorted(members))}")


async def publisher() -> None:
    async with open_worker_network(current_worker(), TENANT, capacity_bytes=100) as network:
        await network.publish(NAME, CONTENTS)
        say("published")
        await until_members(network, {"h0": 100, "h1": 7})
        await until_members(network, {"h0": 100})


async def reader() -> None:
    async with open_worker_network(current_worker(), TENANT, capacity_bytes=7) as network:
        block = await network.fetch(NAME, "h0", TIMEOUT_S)
        same = isinstance(block, Sealed) and np.array_equal(block.contents, CONTENTS)
        say("here" if same else str(block))
        await asyncio.Event().wait()


async def outsider() -> None:
    node = current_worker().node
    name, hint, key = (_core.Name(text) for text in (NAME, "/n/h0", TENANT.key_name))
    operation = node.fetch_object(name, hint, key, _core.ObjectBuffer(), 0.5)
    ended = await asyncio.to_thread(node.wait, operation, TIMEOUT_S)
    say("refused" if ended is not None and ended[0] == _core.STATUS_NO_ROUTE else str(ended))


asyncio.run({"publisher": publisher, "reader": reader, "outsider": outsider}[ROLE]())
