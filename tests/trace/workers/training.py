"""A few steps of DistributedDataParallel with many small buckets."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

LAYERS = 8
STEPS = 2


def main():
    torch.set_num_threads(1)
    dist.init_process_group("innet")
    layers = [nn.Linear(256, 256) for _ in range(LAYERS)]
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.25)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(512, 256)).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


main()
