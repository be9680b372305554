"""A rank that sums an array in a loop, and says how long each sum took.

telemetry.py SIZE_BYTES OPERATIONS
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

import innet

WARM_UP_OPERATIONS = 3


def main() -> None:
    """Print ``begun``, and then the times, and whether the sums were right."""
    size_bytes, operations = (int(argument) for argument in sys.argv[1:])
    comm = innet.init()
    contribution = np.full(size_bytes // 4, comm.rank + 1, np.float32)
    total = np.empty_like(contribution)
    for _ in range(WARM_UP_OPERATIONS):
        comm.allreduce(contribution, out=total)
    comm.barrier()
    print("begun", flush=True)
    took_s = []
    for _ in range(operations):
        began_s = time.perf_counter()
        comm.allreduce(contribution, out=total)
        took_s.append(time.perf_counter() - began_s)
    right = bool((total == comm.size * (comm.size + 1) / 2).all())
    print(json.dumps({"took_s": took_s, "right": right}), flush=True)


if __name__ == "__main__":
    main()
