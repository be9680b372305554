"""Trains with plain PyTorch: parameters sharded by FSDP2 (``fully_shard``) over innet.

innet run star8 -- python apps/with_fsdp2.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, DistributedSampler
from with_frameworks.training import (
    WORKLOADS,
    StepTimer,
    endless,
    parse_arguments,
    report,
)


def main() -> None:
    """Train, and print the loss and the time of a step."""
    arguments = parse_arguments(__doc__)
    workload = WORKLOADS[arguments.model]
    dist.init_process_group(arguments.backend)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = workload.make_model()
    for layer in list(model.modules()):
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = workload.make_data()
    loader = DataLoader(data, batch_size=workload.batch, sampler=DistributedSampler(data, seed=3))
    timer = StepTimer()
    loss = torch.zeros(())
    for _, batch in zip(range(arguments.steps), endless(loader), strict=False):
        optimizer.zero_grad()
        loss = model(**batch)["loss"]
        loss.backward()
        optimizer.step()
        timer.end_step()
    mean = loss.detach()
    dist.all_reduce(mean, op=dist.ReduceOp.SUM)
    report(mean.item() / dist.get_world_size(), timer)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
