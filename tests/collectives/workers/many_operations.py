"""A given number of small allreduces."""

import sys

import numpy as np

import innet

comm = innet.init(group=sys.argv[2])
values = np.ones(3000, np.float32)
for _ in range(int(sys.argv[1])):
    comm.allreduce(values, out=values)
    values[:] = 1
comm.close()
