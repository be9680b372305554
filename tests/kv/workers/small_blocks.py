"""Puts small blocks from one host to its neighbour, and prints what the neighbour's store counts
and how much memory the process took for it.

    python small_blocks.py BYTES MEMORY_BYTES BLOCKS
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np

from innet.kv.names import BlockFamily, BlockKey
from innet.kv.pool import BlockPool, MemoryTier, PoolSettings, TieredStore
from innet.lab.simulation import Simulation
from innet.lab.simulation.pools import SimulatedPools
from innet.topology import parse_yaml

NEIGHBOURS = """
name: neighbours
topology:
  nodes: {home: {kind: host}, user: {kind: host}}
  links: [{endpoints: ["user:eth0", "home:eth0"], rate: 1gbit}]
"""
DIGEST = "5f" * 32
AT_ONCE = 64


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


async def fill(pools: SimulatedPools, size: int, memory: int, blocks: int) -> dict[str, object]:
    tenant = pools.tenant("acme")
    family = BlockFamily(tenant.component, DIGEST, "f32-kv-nhd", 0, 32)
    async with AsyncExitStack() as stack:
        opened = []
        for host, offered in (("home", memory), ("user", 0)):
            network = await stack.enter_async_context(
                pools.open(host, tenant, capacity_bytes=offered)
            )
            pool = BlockPool(
                network,
                local=TieredStore(MemoryTier(0)),
                offered=TieredStore(MemoryTier(offered)),
                settings=PoolSettings(),
            )
            opened.append(await stack.enter_async_context(pool))
        home, user = opened
        numbers = np.random.default_rng(1)
        before = resident_bytes()
        for start in range(0, blocks, AT_ONCE):
            count = min(AT_ONCE, blocks - start)
            keys = [BlockKey(family, numbers.bytes(32)) for _ in range(count)]
            kept = await user.put_many([(key, numbers.bytes(size)) for key in keys])
            assert kept == [1] * count, f"block {start}: {kept}"
        await asyncio.sleep(0.1)
        gc.collect()
        tier = home.statistics().tiers["home memory"]
        return {
            "blocks": tier.blocks,
            "evicted": tier.evicted,
            "used_bytes": tier.used_bytes,
            "grown_bytes": resident_bytes() - before,
        }


def main() -> None:
    size, memory, blocks = map(int, sys.argv[1:])
    with Simulation(parse_yaml(NEIGHBOURS), seed=5) as sim:
        pools = SimulatedPools(sim)
        found: dict[str, object] = {}

        async def whole() -> None:
            found.update(await fill(pools, size, memory, blocks))

        sim.run(whole())
        print(json.dumps(found))


main()
