"""Allreduces one after the other, as a training does; says each step and a digest of all results.

steps.py STEPS ELEMENTS PAUSE_S
"""

import hashlib
import sys
import time

import numpy as np

import innet

steps, elements, pause_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
comm = innet.init()
random = np.random.default_rng(comm.rank)
values: np.ndarray = random.standard_normal(elements, np.float32)
digest = hashlib.sha256()
for step in range(steps):
    total = comm.allreduce(values)
    digest.update(total.tobytes())
    values = values * np.float32(0.5) + total * np.float32(0.01 * (comm.rank + 1))
    if comm.rank == 0:
        print(f"step {step}", flush=True)
    time.sleep(pause_s)
print(f"digest {digest.hexdigest()}", flush=True)
comm.close()
