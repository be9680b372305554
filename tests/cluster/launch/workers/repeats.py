"""The same allreduce again and again, until a file is there; says how many results differed.

repeats.py ELEMENTS FILE
"""

import sys
from pathlib import Path

import numpy as np

import innet

elements, end = int(sys.argv[1]), Path(sys.argv[2])
comm = innet.init()
values = np.random.default_rng(comm.rank).standard_normal(elements).astype(np.float32)
results = set()
while True:
    results.add(comm.allreduce(values).tobytes())
    if comm.rank == 0:
        print("step", flush=True)
    if comm.allreduce(np.array([float(comm.rank == 0 and end.exists())])).item():
        break
print(f"different results: {len(results)}", flush=True)
comm.close()
