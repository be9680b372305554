"""A pool of blocks that many nodes share, in one event loop, without sockets or clocks of its own.

It imports of ``innet.kv`` only ``names`` and ``eviction``. Read ``pool`` first: what a node can do
with blocks; then ``transfers`` (how they move) and ``home`` (what a node does for others). Other
nodes are reached through :class:`~innet.kv.pool.network.BlockNetwork` alone, which a worker's node
and a simulated one implement. Only disks have a thread (``disk_tier``).
"""

from innet.kv.pool.disk_tier import DiskTier
from innet.kv.pool.network import Cause
from innet.kv.pool.pool import BlockPool
from innet.kv.pool.settings import PoolSettings
from innet.kv.pool.statistics import Place, PoolStatistics, TierStatistics
from innet.kv.pool.tiered_store import LayeredTier, TieredStore
from innet.kv.pool.tiers import MemoryTier

__all__ = [
    "BlockPool",
    "Cause",
    "DiskTier",
    "LayeredTier",
    "MemoryTier",
    "Place",
    "PoolSettings",
    "PoolStatistics",
    "TierStatistics",
    "TieredStore",
]
