"""Sums until that fails; prints how. With a policy, it recovers then, and sums once more.

until_failure.py [shrink|wait]
"""

import os
import sys

import numpy as np

import innet
from innet.errors import RankFailed

policy = sys.argv[1] if len(sys.argv) > 1 else "abort"
comm = innet.init(
    on_death="wait" if policy == "wait" else "shrink" if policy == "shrink" else "abort"
)
mine = np.ones(100_000, np.float32)
count = 0
while os.environ["INNET_RESTARTS"] == "0":
    try:
        comm.allreduce(mine)
    except RankFailed as error:
        print(f"rank {comm.rank} saw: {error}", flush=True)
        if policy == "abort":
            raise
        comm = comm.recover()
        break
    count += 1
    if count == 10:
        print(f"rank {comm.rank} is under way", flush=True)
assert (comm.allreduce(mine) == comm.size).all()
print(f"goes on as rank {comm.rank} of {comm.size}", flush=True)
comm.close()
