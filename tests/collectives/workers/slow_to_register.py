"""Rank 1 takes its time between joining a group and registering its names."""

import time
from unittest import mock

import numpy as np

import innet
from innet.collectives import joining
from innet.collectives.runner import OperationRunner


def slowly(worker, *arguments):
    time.sleep(0.3 if worker.rank == 1 else 0)
    return OperationRunner(worker, *arguments)


with mock.patch.object(joining, "OperationRunner", slowly), innet.init() as comm:
    ones = np.ones(100_000, np.float32)
    comm.allreduce(ones)
    with innet.init(group="pair", nodes=comm.nodes[comm.rank & ~1 :][:2]) as pair:
        pair.allreduce(ones)
    comm.barrier()
    counted = comm.stats()["endpoint"]
print(f"refused {counted['nacks_received']}, evaluated by itself {counted['self_evaluations']}")
