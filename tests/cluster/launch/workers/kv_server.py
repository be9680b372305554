"""Two servers that share blocks; the second is killed once, and comes back.

Arguments: two pipes, of which one says that the block was put, and the other that it was got by
the second server's successor.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np

from innet.kv.names import NO_MODEL_DIGEST, BlockFamily, BlockKey
from innet.kv.pool_member import PoolMember

WAS_PUT, WAS_GOT = Path(sys.argv[1]), Path(sys.argv[2])
CONTENTS = np.arange(100_000, dtype=np.uint8)
IS_FIRST = os.environ["RANK"] == "0"


def key(member: PoolMember) -> BlockKey:
    return BlockKey(BlockFamily(member.tenant, NO_MODEL_DIGEST, "raw", 0, 1), bytes(32))


def has_block(member: PoolMember) -> bool:
    block = member.run(member.blocks.get(key(member), timeout_s=60.0))
    return block is not None and np.array_equal(block, CONTENTS)


def main() -> None:
    # The first server is the home of all blocks, so that the second's death costs none.
    with PoolMember.open(tenant="acme", offered_memory="1MiB" if IS_FIRST else 0) as member:
        if IS_FIRST:
            member.run(member.blocks.put(key(member), CONTENTS))
            WAS_PUT.write_text("put")
            WAS_GOT.read_text()
            print(f"still serves: {has_block(member)}", flush=True)
            return
        member.run(member.members(1, timeout_s=60.0))
        restarts = int(os.environ["INNET_RESTARTS"])
        if not restarts:
            WAS_PUT.read_text()
        print(f"start {restarts}: {has_block(member)}", flush=True)
        if not restarts:
            os.kill(os.getpid(), signal.SIGKILL)
        WAS_GOT.write_text("got")


main()
