"""An engine's process, which attaches to a standing pool: puts or gets, and prints what it has.

Commands are lines of standard input: ``put N``, ``get N`` for the blocks of number N. With a second
argument, it also starts while the pool is down.
"""

from __future__ import annotations

import json
import sys

import numpy as np

from innet.kv.names import BlockFamily, BlockKey
from innet.kv.pool_member import PoolMember

SIZE = 5000

opened = PoolMember.open_or_wait if sys.argv[2:] else PoolMember.open
with opened(**json.loads(sys.argv[1])) as member:
    family = BlockFamily(member.tenant, "00ff", "raw", 0, 1)
    print("at", member.node, flush=True)
    for line in sys.stdin:
        verb, number = line.split()
        key = BlockKey(family, int(number).to_bytes(32, "big"))
        contents = np.full(SIZE, int(number), np.uint8)
        if verb == "put":
            print("put", member.run(member.blocks.put(key, contents)), flush=True)
        else:
            found = member.run(member.blocks.get(key))
            right = found is not None and np.array_equal(found, contents)
            print("found" if right else "none" if found is None else "WRONG", flush=True)
