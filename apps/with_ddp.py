"""Trains with plain PyTorch: DistributedDataParallel over innet.

innet run star8 -- python apps/with_ddp.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
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
    model = DistributedDataParallel(workload.make_model())
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
