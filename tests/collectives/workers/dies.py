"""Rank 2 is killed in the middle of an operation; the others print their errors, and when."""

import os
import signal
import sys
import time

import numpy as np

import innet
from innet.errors import InnetError

DEADLINE_S = float(sys.argv[1])
comm = innet.init(timeout_s=DEADLINE_S)
comm.barrier()
large = np.ones(40_000_000, np.float32)
started = time.monotonic()
try:
    work = comm.iallreduce(large)
    if comm.rank == 2:
        time.sleep(0.2)  # not for order: it only makes "in the middle" likely
        os.kill(os.getpid(), signal.SIGKILL)
    work.wait()
except InnetError as error:
    print(f"{type(error).__name__}|{error}|{time.monotonic() - started < DEADLINE_S}")
    raise
