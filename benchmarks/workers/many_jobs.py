"""One of several jobs: sums of one size in a loop, begun when all jobs are there.

many_jobs.py NAME SIZE_BYTES STEPS DIRECTORY NEIGHBOUR...
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

import innet


def main() -> None:
    """Print when the loop began and ended, on the machine's clock, and whether it was right."""
    name, size_bytes, steps, directory, *neighbours = sys.argv[1:]
    comm = innet.init()
    contribution = np.full(int(size_bytes) // 4, comm.rank + 1, np.float32)
    expected = comm.size * (comm.size + 1) / 2
    right = bool((comm.allreduce(contribution) == expected).all())
    (Path(directory) / f"{name}.{comm.rank}").touch()
    await_all(Path(directory), neighbours, comm.size)
    comm.barrier()
    began_s = time.monotonic()
    for _ in range(int(steps)):
        total = comm.allreduce(contribution)
    ended_s = time.monotonic()
    right = right and bool((total == expected).all())
    print(json.dumps({"began_s": began_s, "ended_s": ended_s, "right": right}))


def await_all(directory: Path, jobs: list[str], ranks: int) -> None:
    """Wait until every rank of all ``jobs`` has come."""
    while any(not (directory / f"{job}.{rank}").exists() for job in jobs for rank in range(ranks)):
        time.sleep(0.001)


if __name__ == "__main__":
    main()
