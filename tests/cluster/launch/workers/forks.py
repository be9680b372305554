"""Forks in the midst of its work; the child fails, and is nobody of the job's."""

import os
import signal

import numpy as np

import innet

comm = innet.init(timeout_s=60)
comm.allreduce(np.ones(4, np.float32))
child = os.fork()
if child == 0:
    signal.alarm(30)  # of its own failing it is to end, not of that
    for attempt in (comm.barrier, innet.init, innet.present_nodes):
        try:
            attempt()
        except innet.errors.InnetError as error:
            print(f"{type(error).__name__}: {error}")
    raise ValueError("the child fails")
_, status = os.waitpid(child, 0)
total = comm.allreduce(np.ones(4, np.float32))
print(f"the child ended with {os.waitstatus_to_exitcode(status)}, the sum is {total[0]:g}")
