"""DistributedDataParallel goes on when the process of a rank is killed.

recovers.py RANK: the one that dies in the midst of the training.
"""

import os
import signal
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import innet.torch_backend

STEPS, LAST = 8, 3
dies = int(sys.argv[1])
host = int(os.environ["RANK"])
is_first = os.environ["INNET_RESTARTS"] == "0"


def gradient(of, step):
    return torch.full((1, 8), float(12 * 2**of * (step + 1)))


def in_step():
    """All ranks get the weights, and the history, of the one that has got furthest."""
    global history
    histories: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(histories, history)
    furthest = max(range(len(histories)), key=lambda rank: len(histories[rank]))
    history = histories[furthest]
    dist.broadcast(layer.weight.data, src=furthest)


def ranks_here():
    hosts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(hosts, host)
    return hosts


torch.set_num_threads(1)
layer = nn.Linear(8, 1, bias=False)
nn.init.zeros_(layer.weight)
history: list[Any] = []  # the hosts that made each step
dist.init_process_group("innet")
in_step()
model = DistributedDataParallel(layer)
present = ranks_here()
while len(history) < STEPS:
    if (host, len(history), is_first) == (dies, LAST, True):
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        model.zero_grad()
        model(gradient(host, len(history))).sum().backward()
        with torch.no_grad():
            assert layer.weight.grad is not None
            layer.weight -= layer.weight.grad
        history.append(present)
    except RuntimeError as error:  # what DistributedDataParallel makes of a RankFailed
        print("lost:", str(error).splitlines()[0], flush=True)
        innet.torch_backend.recover()
        in_step()  # before DistributedDataParallel sends rank 0's weights to all
        model = DistributedDataParallel(layer)
        present = ranks_here()
        print(f"goes on as {dist.get_rank()} of {dist.get_world_size()}", flush=True)
expected = torch.zeros(1, 8)
for step, hosts in enumerate(history):
    expected -= sum(gradient(other, step) for other in hosts) / len(hosts)
print(f"sizes {[len(hosts) for hosts in history]}", flush=True)
print(f"means over those who are there {torch.equal(layer.weight.detach(), expected)}", flush=True)
print(f"environment {os.environ['RANK']} of {os.environ['WORLD_SIZE']}", flush=True)
dist.destroy_process_group()
