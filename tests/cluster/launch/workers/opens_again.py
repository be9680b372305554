"""Opens and closes its worker three times, with groups that each rank leaves in its own order."""

import logging

import numpy as np

import innet
from innet.worker import close_worker

logging.basicConfig()
for value in (1, 10, 100):
    groups = [innet.init(group=name, timeout_s=60) for name in ("a", "b", "c")]
    for comm in groups:
        total = comm.allreduce(np.full(20_000, value, np.float32))
        assert (total == value * comm.size).all(), "a sum of the worker before it"
    first = groups[0].rank
    for comm in groups[first:] + groups[:first]:
        comm.close()
    close_worker()
print("all right")
