"""Rank 1 is killed while the others wait for it in a barrier."""

import os
import signal
import time

import numpy as np

import innet

comm = innet.init()
comm.allreduce(np.ones(4096, np.float32))
if comm.rank == 1:
    # What was written down before the last tenth of a second is in the file.
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)
comm.barrier()
