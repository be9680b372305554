"""Rank 1 can write nothing more to any file, as on a full disk."""

import resource

import numpy as np

import innet

comm = innet.init()
if comm.rank == 1:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))
for _ in range(50):
    comm.allreduce(np.ones(100_000, np.float32))
print("done")
