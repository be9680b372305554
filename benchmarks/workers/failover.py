"""One rank of ``failover.py``: allreduces of the same array until ``STOP_FILE`` exists.

failover.py SIZE_BYTES STOP_FILE

Says ``ended N S`` after operation N, S being the monotonic clock's seconds, which all processes of
a machine share. The sum is the same each time, to the bit, or the worker fails.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import innet


def main() -> None:
    """Take part until rank 0 finds the file."""
    elements, stop_file = int(sys.argv[1]) // 4, Path(sys.argv[2])
    communicator = innet.init()
    values = np.random.default_rng(communicator.rank).standard_normal(elements, np.float32)
    first = communicator.allreduce(values)
    flag = np.zeros(1, np.int32)
    number = 0
    while not communicator.allreduce(flag)[0]:
        total = communicator.allreduce(values)
        print(f"ended {number} {time.monotonic()}", flush=True)
        if total.tobytes() != first.tobytes():
            raise SystemExit(f"operation {number} has other bits than the first")
        flag[0] = communicator.rank == 0 and stop_file.exists()
        number += 1


if __name__ == "__main__":
    main()
