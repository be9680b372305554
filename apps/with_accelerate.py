"""Trains with Hugging Face Accelerate over innet.

innet run star8 -- python apps/with_accelerate.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from accelerate import Accelerator
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
    # Accelerate takes Gloo on processors, unless there is a process group already.
    dist.init_process_group(arguments.backend)
    accelerator = Accelerator(cpu=True)
    model = workload.make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(workload.make_data(), batch_size=workload.batch, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    timer = StepTimer()
    loss = torch.zeros(())
    for _, batch in zip(range(arguments.steps), endless(loader), strict=False):
        optimizer.zero_grad()
        loss = model(**batch)["loss"]
        accelerator.backward(loss)
        optimizer.step()
        timer.end_step()
    mean = accelerator.reduce(loss.detach(), reduction="mean")
    report(mean.item(), timer)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
