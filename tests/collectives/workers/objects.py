"""Each rank publishes an object and fetches everybody's."""

import numpy as np

import innet


def contents(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).standard_normal(100_000 + rank)


with innet.init() as comm:
    comm.publish("model", contents(comm.rank))
    works = [comm.ifetch("model", source=rank) for rank in range(comm.size)]
    for rank, work in enumerate(works):
        assert np.array_equal(work.wait().view(np.float64), contents(rank)), rank
    comm.barrier()
print("all right")
