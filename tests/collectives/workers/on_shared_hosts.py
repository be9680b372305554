"""What ranks of one host and of two do with each other: messages, arrays, groups, blocks."""

from __future__ import annotations

import os

import numpy as np

import innet
from innet.kv.names import NO_MODEL_DIGEST, BlockFamily, BlockKey
from innet.kv.pool_member import PoolMember

LARGE = np.arange(300_000, dtype=np.float32)


def seat() -> str:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK")
    return " ".join(os.environ[name] for name in names)


def sums_are_exact(comm: innet.Communicator) -> None:
    count = comm.size * (comm.size + 1) // 2
    for dtype in (np.float32, np.int64, np.float16):
        total = comm.allreduce(np.full(100_000, comm.rank + 1, dtype))
        assert (total == count).all(), dtype


def each_sends_to_each(comm: innet.Communicator) -> None:
    sends = [comm.isend(LARGE + comm.rank, to=to) for to in range(comm.size) if to != comm.rank]
    for source in range(comm.size):
        if source != comm.rank:
            received = np.empty_like(LARGE)
            comm.recv(received, source=source)
            assert (received == LARGE + source).all(), source
    for send in sends:
        send.wait()


def arrays_are_read_and_written(comm: innet.Communicator) -> None:
    mine = np.zeros(50_000)
    comm.register(f"array/{comm.rank}", mine)
    comm.barrier()
    for rank in range(comm.size):
        comm.put(f"array/{rank}", rank, np.full(50_000, 10.0**comm.rank), combine="sum")
    comm.barrier()
    for rank in range(comm.size):
        array, _ = comm.get(f"array/{rank}", rank)
        assert (array == 1111.0).all(), rank


def groups_within_and_across_hosts(comm: innet.Communicator) -> None:
    host = comm.rank // 2
    rail = [comm.rank % 2, comm.rank % 2 + 2]
    for name, nodes, ranks in (
        (f"host{host}", [f"h{host}"], [2 * host, 2 * host + 1]),
        (f"rail{rail[0]}", [comm.nodes[rank] for rank in rail], rail),
        ("swapped", ["h1", "h0"], [2, 3, 0, 1]),
    ):
        with innet.init(group=name, nodes=nodes) as part:
            assert part.rank == ranks.index(comm.rank)
            total = part.allreduce(np.full(5000, comm.rank, np.int32))
            assert (total == sum(ranks)).all(), name


def blocks_are_shared(comm: innet.Communicator) -> None:
    # One home for all blocks: others that join at the same moment would still move blocks.
    offered = "4MiB" if comm.rank == 0 else 0
    if comm.rank != 0:
        comm.barrier()
    with PoolMember.open(tenant="acme", offered_memory=offered) as member:
        if comm.rank == 0:
            comm.barrier()
        family = BlockFamily(member.tenant, NO_MODEL_DIGEST, "raw", 0, 1)
        keys = [BlockKey(family, bytes([rank]) * 32) for rank in range(comm.size)]
        contents = [np.full(100_000, rank, np.uint8) for rank in range(comm.size)]
        comm.barrier()
        member.run(member.blocks.put(keys[comm.rank], contents[comm.rank]))
        comm.barrier()
        for key, expected in zip(keys, contents, strict=True):
            block = member.run(member.blocks.get(key, timeout_s=60.0))
            assert block is not None
            assert np.array_equal(block, expected)
        comm.barrier()


def main() -> None:
    print(seat())
    with innet.init() as comm:
        sums_are_exact(comm)
        each_sends_to_each(comm)
        arrays_are_read_and_written(comm)
        groups_within_and_across_hosts(comm)
        blocks_are_shared(comm)
    print("all right")


main()
