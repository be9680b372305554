"""Trains with Ray Train on the machines of a network: trainer.py NETWORK DIRECTORY."""

from __future__ import annotations

import sys
from typing import Any

import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

from innet.ray import InnetConfig


def train(config: dict[str, Any]) -> None:
    """Train a small model; each rank writes what it has learned."""
    import json
    import os
    import pathlib

    import ray.train.torch
    import torch

    rank = torch.distributed.get_rank()
    torch.manual_seed(0)
    model = ray.train.torch.prepare_model(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        batch = torch.randn(8, 4, generator=torch.Generator().manual_seed(100 * step + rank))
        optimizer.zero_grad()
        (model(batch) - batch.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
    weights = [parameter.tolist() for parameter in model.parameters()]
    address = ray.util.get_node_ip_address()
    backend = torch.distributed.get_backend()
    path = pathlib.Path(config["directory"]) / f"rank-{rank}.json"
    path.write_text(json.dumps([address, os.environ["INNET_NODE"], backend, weights]))


def main(network: str, directory: str) -> None:
    """Train on both machines."""
    ray.init("auto", log_to_driver=False, logging_level="warning")
    TorchTrainer(
        train,
        train_loop_config={"directory": directory},
        torch_config=InnetConfig(network=network),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=f"{directory}/store"),
    ).fit()


if __name__ == "__main__":
    main(*sys.argv[1:])
