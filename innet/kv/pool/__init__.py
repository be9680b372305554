"""The engine of a pool of blocks, which many nodes have together.

It runs in one event loop, without sockets or clocks of its own: what it needs of the world is
:class:`~innet.kv.pool.network.BlockNetwork`, which a worker's node and a simulated one have. Disks
alone are worked with in a thread, see :mod:`innet.kv.pool.tiers.disk_work`.

* ``block_pool``: what a node does with the pool; ``settings``, ``statistics``: of it;
* ``finding``, ``giving``, ``pinning``: its parts: get, put, keep for a while;
* ``intake``, ``notes``: blocks that come to their home when they are put, or when asked for;
* ``members``: who is home to a block; ``joining``: waits until they are there;
* ``asker``, ``home``: requests to members and their answers;
* ``tiers``: where blocks are; ``verified_store``, ``offered_store``: for this node, for others;
* ``publications``: what this node serves.
"""

from innet.kv.pool.block_pool import BlockPool
from innet.kv.pool.settings import PoolSettings
from innet.kv.pool.statistics import Cause, Place, PoolStatistics, TierStatistics
from innet.kv.pool.tiers.disk import DiskTier
from innet.kv.pool.tiers.memory import MemoryTier
from innet.kv.pool.tiers.tiered import TieredStore

__all__ = [
    "BlockPool",
    "Cause",
    "DiskTier",
    "MemoryTier",
    "Place",
    "PoolSettings",
    "PoolStatistics",
    "TierStatistics",
    "TieredStore",
]
