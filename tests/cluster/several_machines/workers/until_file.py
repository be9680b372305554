"""Sums until a file exists that rank 0 looks for.

until_file.py FILE [ELEMENTS [EVERY]]: rank 0 prints a line after EVERY sums.
"""

import sys
from pathlib import Path

import numpy as np

import innet

comm = innet.init()
stop, count = Path(sys.argv[1]), 0
mine = np.ones(int((sys.argv[2:] or ["20000"])[0]), np.float32)
every = int((sys.argv[3:] or ["20"])[0])
while True:
    mine[0] = comm.rank == 0 and stop.exists()
    total = comm.allreduce(mine)
    assert (total[1:] == comm.size).all()
    count += 1
    if count % every == 0 and comm.rank == 0:
        print(f"{count} sums", flush=True)
    if total[0]:
        break
comm.close()
