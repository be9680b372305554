"""Trains with Lightning Fabric over innet.

innet run star8 -- python apps/with_fabric.py
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from lightning.fabric import Fabric
from lightning.fabric.strategies import DDPStrategy
from torch.utils.data import DataLoader
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
    fabric = Fabric(
        accelerator="cpu",
        num_nodes=int(os.environ["WORLD_SIZE"]),
        strategy=DDPStrategy(process_group_backend=arguments.backend),
    )
    fabric.launch()
    model = workload.make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = fabric.setup(model, optimizer)
    loader = fabric.setup_dataloaders(
        DataLoader(workload.make_data(), batch_size=workload.batch, shuffle=True)
    )
    timer = StepTimer()
    loss = torch.zeros(())
    for _, batch in zip(range(arguments.steps), endless(loader), strict=False):
        optimizer.zero_grad()
        loss = model(**batch)["loss"]
        fabric.backward(loss)
        optimizer.step()
        timer.end_step()
    report(fabric.all_reduce(loss.detach(), reduce_op="mean").item(), timer)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
