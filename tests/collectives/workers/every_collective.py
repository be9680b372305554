"""Every collective once, blocking, in place or not, as a future, and awaited."""

import asyncio

import numpy as np

import innet


def main(comm):
    rank, size = comm.rank, comm.size
    everyone = np.arange(size)

    mine = np.arange(size * 3, dtype=np.int64).reshape(size, 3) + 100 * rank
    total = np.add.reduce([np.arange(size * 3).reshape(size, 3) + 100 * r for r in range(size)])

    assert (comm.allreduce(mine) == total).all()
    assert (mine == np.arange(size * 3).reshape(size, 3) + 100 * rank).all(), "input was changed"
    assert (comm.reduce_scatter(mine) == total[rank]).all()
    reduced = comm.reduce(mine, root=size - 1)
    if rank == size - 1:
        assert reduced is not None
        assert (reduced == total).all()
    else:
        assert reduced is None

    gathered = comm.allgather(np.array([rank, rank * rank]))
    assert (gathered == np.stack([everyone, everyone**2], axis=1)).all()
    at_root = comm.gather(np.array([rank], np.complex128), root=1)
    if rank == 1:
        assert at_root is not None
        assert (at_root[:, 0] == everyone).all()
    else:
        assert at_root is None

    word = np.full(5, rank, np.int16)
    comm.broadcast(word, root=size - 1)
    assert (word == size - 1).all()

    blocks = np.arange(size * 2, dtype=np.float32).reshape(size, 2) if rank == 0 else None
    block = comm.scatter(blocks, root=0, out=np.empty((1, 2), np.float32))
    assert (block == [2 * rank, 2 * rank + 1]).all()

    swapped = comm.alltoall(np.arange(size) + 10 * rank)
    assert (swapped == 10 * everyone + rank).all()

    flags = comm.allreduce(np.array(rank, np.int32), op="max")
    assert flags.shape == (), "a 0-d array keeps its shape"
    assert flags == size - 1

    strided = np.zeros((6, 4), np.float32)[:, ::2]
    strided += rank
    comm.allreduce(strided, out=strided)
    assert (strided == everyone.sum()).all(), "a strided array is reduced in place"

    messages(comm)
    futures(comm)
    asyncio.run(awaited(comm))
    asyncio.run(no_longer_awaited(comm))
    many_broadcasts(comm)
    comm.barrier()
    print("all right")


def messages(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for tag in (0, 7):
        comm.send(np.full(3000, comm.rank * 10 + tag, np.float64), to=right, tag=tag)
    got = np.empty(3000)
    for tag in (7, 0):  # another order than they were sent in
        comm.recv(got, source=left, tag=tag)
        assert (got == left * 10 + tag).all()
    for n in range(200):  # more than may be unconfirmed at once
        comm.isend(np.array([n]), to=right)
        number = np.empty(1, np.int64)
        comm.recv(number, source=left)
        assert number[0] == n


def futures(comm):
    arrays = [np.full(20_000, i + comm.rank, np.float32) for i in range(20)]
    works = [comm.iallreduce(array, out=array) for array in arrays]
    for i, (work, array) in enumerate(zip(works, arrays, strict=True)):
        assert work.wait(30) is array
        assert work.done()
        assert work.exception() is None
        assert (array == comm.size * i + sum(range(comm.size))).all()


async def awaited(comm):
    first = comm.iallreduce(np.ones(10))
    second = comm.iallgather(np.array([comm.rank]))
    results = await asyncio.gather(first, second)
    assert (results[0] == comm.size).all()
    assert (results[1][:, 0] == np.arange(comm.size)).all()


async def no_longer_awaited(comm):
    """Whoever gives up awaiting leaves the operation as it is: its end can still be waited for."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    work = comm.irecv(np.empty(1, np.int64), source=left, tag=1)
    waiting = asyncio.ensure_future(work)
    await asyncio.sleep(0)  # it begins to wait
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await comm.ibarrier()  # nobody has sent before all have given up
    comm.send(np.array([comm.rank]), to=right, tag=1)
    assert work.wait() == left


def many_broadcasts(comm):
    """The root runs ahead of slow receivers, and what they still need is kept for them."""
    for n in range(40):
        value = np.full(5000, n if comm.rank == 0 else -1, np.int32)
        comm.broadcast(value)
        assert (value == n).all()


with innet.init() as comm:
    main(comm)
