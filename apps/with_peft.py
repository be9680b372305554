"""Trains a LoRA adapter of peft over innet.

innet run star8 -- python apps/with_peft.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from with_frameworks.training import WORKLOADS, StepTimer, argument_parser, endless, report


def main() -> None:
    """Train, and print the loss and the time of a step."""
    arguments = argument_parser(__doc__).parse_args()
    dist.init_process_group(arguments.backend)
    workload = WORKLOADS["perceptron"]
    base, data = workload.make_model(), workload.make_data()
    layers = [name for name, part in base.named_modules() if isinstance(part, nn.Linear)]
    model = DistributedDataParallel(get_peft_model(base, LoraConfig(r=4, target_modules=layers)))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.5)
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
