"""Sums until that fails; prints how."""

import sys

import numpy as np

import innet
from innet.errors import RankFailed

shrinks = len(sys.argv) > 1
comm = innet.init(on_death="shrink" if shrinks else "abort")
mine = np.ones(100_000, np.float32)
count = 0
while True:
    try:
        comm.allreduce(mine)
    except RankFailed as error:
        print(f"rank {comm.rank} saw: {error}", flush=True)
        if not shrinks:
            raise
        comm = comm.recover()
        print(f"goes on as rank {comm.rank} of {comm.size}", flush=True)
        break
    count += 1
    if count == 10:
        print(f"rank {comm.rank} is under way", flush=True)
assert (comm.allreduce(mine) == comm.size).all()
comm.close()
