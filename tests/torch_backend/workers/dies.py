"""Rank 2 is killed in the middle of training; the others say what they hear of it."""

import os
import signal

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("innet")
model = DistributedDataParallel(nn.Linear(3000, 100))
try:
    for step in range(1000):
        if step == 3 and dist.get_rank() == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        model(torch.ones(4, 3000)).sum().backward()
except Exception as error:
    print("heard|" + str(error).partition("\n")[0])
dist.destroy_process_group()
