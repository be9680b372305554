"""Trains with as many workers as there is room for, until a file is there.

Usage: elastic_trainer.py NETWORK DIRECTORY. Rank 0 appends its steps to ``DIRECTORY/steps``: the
number of ranks, the step, and the machines.
"""

from __future__ import annotations

import sys
from typing import Any

import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

from innet.ray import InnetConfig


def train(config: dict[str, Any]) -> None:
    """Go on from the last checkpoint."""
    import os
    import pathlib
    import tempfile

    import ray.train.torch
    import torch
    from torch import distributed

    directory = pathlib.Path(config["directory"])
    rank, size = distributed.get_rank(), distributed.get_world_size()
    machines: list[Any] = [None] * size
    distributed.all_gather_object(machines, os.environ["INNET_NODE"])
    model = ray.train.torch.prepare_model(torch.nn.Linear(4, 1))
    step = 0
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            step = torch.load(f"{folder}/step")
    is_over = torch.zeros(1)
    while not is_over:
        step += 1
        model(torch.ones(1, 4)).sum().backward()
        is_over.fill_(rank == 0 and (directory / "stop").exists())
        distributed.all_reduce(is_over)
        with tempfile.TemporaryDirectory() as folder:
            torch.save(step, f"{folder}/step")
            kept = ray.train.Checkpoint.from_directory(folder) if rank == 0 else None
            ray.train.report({"step": step}, checkpoint=kept)
        if rank == 0:
            with (directory / "steps").open("a") as file:
                print(size, step, *machines, file=file)


def main(network: str, directory: str) -> None:
    """Train on one to three machines."""
    ray.init("auto", log_to_driver=False, logging_level="warning")
    TorchTrainer(
        train,
        train_loop_config={"directory": directory},
        torch_config=InnetConfig(network=network),
        scaling_config=ScalingConfig(
            num_workers=(1, 3),
            resources_per_worker={"CPU": 1.5},  # one on each node, beside its machine
            elastic_resize_monitor_interval_s=2,
        ),
        run_config=RunConfig(
            storage_path=f"{directory}/store", failure_config=FailureConfig(max_failures=5)
        ),
    ).fit()


if __name__ == "__main__":
    main(*sys.argv[1:])
