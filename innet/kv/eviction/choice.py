"""Makes a policy by its name."""

from __future__ import annotations

from typing import Literal, get_args

from innet.kv.eviction.lfu import Lfu
from innet.kv.eviction.lru import Lru
from innet.kv.eviction.policy import EvictionPolicy
from innet.kv.eviction.prefix_depth import PrefixDepth
from innet.kv.eviction.s3fifo import S3Fifo
from innet.kv.eviction.second_use import SecondUse

PolicyName = Literal["lru", "lfu", "s3fifo", "prefix-depth", "second-use"]
POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)


def make_policy(name: PolicyName, capacity: int) -> EvictionPolicy:
    """The policy of that name, for a store of that capacity, in the unit of its blocks' sizes."""
    if name == "lru":
        return Lru()
    if name == "lfu":
        return Lfu()
    if name == "s3fifo":
        return S3Fifo(capacity)
    return SecondUse() if name == "second-use" else PrefixDepth()
