"""Allreduces until a file appears; then a new group, and a last sum in it.

group_afterwards.py FILE
"""

import sys
from pathlib import Path

import numpy as np

import innet

comm = innet.init()
signal = Path(sys.argv[1])
flag = np.zeros(1, np.int32)
steps = 0
while not comm.allreduce(flag)[0]:
    flag[0] = comm.rank == 0 and signal.exists()
    if comm.rank == 0 and steps % 100 == 0:
        print(f"step {steps}", flush=True)
    steps += 1
pair = innet.init(group="pair", nodes=[comm.nodes[2], comm.nodes[0]]) if comm.rank != 1 else None
if pair is not None:
    print(f"pair {pair.allreduce(np.ones(1, np.int32))[0]}", flush=True)
    pair.close()
comm.close()
again = innet.init()
print(f"again {again.allreduce(np.ones(1, np.int32))[0]}", flush=True)
