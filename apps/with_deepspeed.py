"""Trains with DeepSpeed's ZeRO over innet.

innet run star8 -- python apps/with_deepspeed.py --stage 3
"""

from __future__ import annotations

import os

os.environ["DS_ACCELERATOR"] = "cpu"

import deepspeed
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler
from with_frameworks.training import WORKLOADS, StepTimer, argument_parser, endless, report


def main() -> None:
    """Train, and print the loss and the time of a step."""
    parser = argument_parser(__doc__)
    parser.add_argument("--stage", type=int, choices=range(4), default=2, help="ZeRO (default: 2)")
    arguments = parser.parse_args()
    # Otherwise DeepSpeed compiles an operation for ranks that share memory, for minutes.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    dist.init_process_group(arguments.backend)
    workload = WORKLOADS["perceptron"]
    model, data = workload.make_model(), workload.make_data()
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        config={
            "train_micro_batch_size_per_gpu": workload.batch,
            "zero_optimization": {"stage": arguments.stage},
            "zero_allow_untested_optimizer": True,
        },
        dist_init_required=False,
    )
    loader = DataLoader(data, batch_size=workload.batch, sampler=DistributedSampler(data, seed=3))
    timer = StepTimer()
    loss = torch.zeros(())
    for _, batch in zip(range(arguments.steps), endless(loader), strict=False):
        loss = engine(**batch)["loss"]
        engine.backward(loss)
        engine.step()
        timer.end_step()
    mean = loss.detach()
    dist.all_reduce(mean, op=dist.ReduceOp.SUM)
    report(mean.item() / dist.get_world_size(), timer)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
