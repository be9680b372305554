"""Two processes that share blocks, and stay until the file that is the argument exists."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import numpy as np

import innet
from innet.kv.names import NO_MODEL_DIGEST, BlockFamily, BlockKey
from innet.kv.pool_member import PoolMember

DONE = Path(sys.argv[1])
CONTENTS = np.zeros(100_000, np.uint8)


def first(member: PoolMember, keys: list[BlockKey]) -> None:
    for key in keys[:3]:
        member.run(member.blocks.put(key, CONTENTS))


def second(member: PoolMember, keys: list[BlockKey]) -> None:
    for key in keys[:2]:
        assert member.run(member.blocks.get(key)) is not None
    assert member.run(member.blocks.get(keys[3])) is None
    assert member.run(member.blocks.count_prefix(keys[2:])) == 1


def main() -> None:
    comm = innet.init()
    is_first = os.environ["RANK"] == "0"
    # The first is the home of all blocks; the second has room for one.
    with PoolMember.open(
        tenant="acme",
        engine="first" if is_first else "second",
        model_name="" if is_first else "llama",
        memory="1MiB" if is_first else 150_000,
        offered_memory="1MiB" if is_first else 0,
    ) as member:
        member.run(member.members(1))
        family = BlockFamily(member.tenant, NO_MODEL_DIGEST, "raw", 0, 1)
        keys = [BlockKey(family, bytes([place]) * 32) for place in range(4)]
        if is_first:
            first(member, keys)
        comm.barrier()
        if not is_first:
            second(member, keys)
        print("ready", flush=True)
        while not DONE.exists():
            threading.Event().wait(0.1)
        comm.barrier()


main()
