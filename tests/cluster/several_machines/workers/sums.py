"""Prints the digest of a sum over all ranks of the job."""

import hashlib
import os

import numpy as np

import innet

comm = innet.init()
mine = np.random.default_rng(comm.rank).standard_normal(300_000).astype(np.float32)
total = comm.allreduce(mine)
print("sum", hashlib.sha256(total.tobytes()).hexdigest(), flush=True)
print("master", os.environ["MASTER_ADDR"], flush=True)
comm.close()
