"""Rank 1 fails with a Python error; the others are told at once."""

import numpy as np

import innet

comm = innet.init()
if comm.rank == 1:
    raise ValueError("the data set is empty")
comm.allreduce(np.ones(10))
