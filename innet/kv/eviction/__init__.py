"""What a full store drops first. Pure: no clock, no randomness, no memory but its own.

* ``policy`` is what they have in common; ``lru``, ``lfu``, ``s3fifo``, ``prefix_depth`` are they;
* ``choice`` makes one by its name.
"""

from innet.kv.eviction.choice import POLICIES, PolicyName, make_policy
from innet.kv.eviction.policy import EvictionPolicy

__all__ = ["POLICIES", "EvictionPolicy", "PolicyName", "make_policy"]
