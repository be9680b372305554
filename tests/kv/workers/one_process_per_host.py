"""A host whose processes all want to join a pool, and another host that gets their blocks.

Arguments: how processes start (``fork``, ``spawn``), who joins first (``parent``, ``child``), and
two pipes, of which one says that the block was put, and the other that it was got.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from innet.errors import EmulationError
from innet.kv.names import NO_MODEL_DIGEST, BlockFamily, BlockKey
from innet.kv.pool_member import PoolMember

METHOD, FIRST = sys.argv[1], sys.argv[2]
WAS_PUT, WAS_GOT = Path(sys.argv[3]), Path(sys.argv[4])
CONTENTS = np.arange(100_000, dtype=np.uint8)


def join() -> PoolMember:
    return PoolMember.open(tenant="acme", offered_memory="1MiB")


def key(member: PoolMember) -> BlockKey:
    return BlockKey(BlockFamily(member.tenant, NO_MODEL_DIGEST, "raw", 0, 1), bytes(32))


def share(member: PoolMember) -> None:
    """Put a block, and stay until the other host has it."""
    with member:
        member.run(member.members(2, timeout_s=60.0))
        print(f"homes: {member.run(member.blocks.put(key(member), CONTENTS))}", flush=True)
        WAS_PUT.write_text("put")
        WAS_GOT.read_text()


def join_and_share(parent: Connection) -> None:
    member = join()
    parent.send("joined")
    parent.recv()
    share(member)


def join_second(parent: Connection) -> None:
    try:
        join()
        parent.send("joined as well")
    except EmulationError as error:
        parent.send(f"{type(error).__name__}: {error}")


def with_children() -> None:
    fork, spawn = multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")
    context = fork if METHOD == "fork" else spawn
    here, there = context.Pipe()
    if FIRST == "parent":
        member = join()
    else:
        first = context.Process(target=join_and_share, args=(there,))
        first.start()
        here.recv()
    second = context.Process(target=join_second, args=(there,))
    second.start()
    print(here.recv(), flush=True)
    second.join()
    if FIRST == "parent":
        share(member)
    else:
        here.send("share")
        first.join()


def alone() -> None:
    with join() as member:
        member.run(member.members(2, timeout_s=60.0))
        WAS_PUT.read_text()
        block = member.run(member.blocks.get(key(member), timeout_s=60.0))
        print(f"got it: {block is not None and np.array_equal(block, CONTENTS)}", flush=True)
        WAS_GOT.write_text("got")


if __name__ == "__main__":
    with_children() if os.environ["RANK"] == "0" else alone()
