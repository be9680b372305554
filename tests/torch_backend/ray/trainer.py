"""Trains with Ray Train over a network, in several ways one after the other.

Usage: trainer.py NETWORK DIRECTORY. Prints a line of JSON for each way: its name, and failures.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import ray
from pyroute2 import IPRoute
from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
from ray.train.torch import TorchConfig, TorchTrainer

from innet.ray import InnetConfig

WORKERS = 4
STARTS = 3


def train(config: dict[str, Any]) -> None:
    """Train a small model; each rank writes what it has learned."""
    import pathlib

    import ray.train.torch
    import torch

    rank = torch.distributed.get_rank()
    directory = pathlib.Path(config["directory"])
    torch.manual_seed(0)
    model = ray.train.torch.prepare_model(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        if rank == config.get("dies") and step == 2 and not (directory / "died").exists():
            (directory / "died").touch()
            os._exit(1)
        if rank == config.get("raises") and step == 2:
            raise ValueError("as asked")
        batch = torch.randn(8, 4, generator=torch.Generator().manual_seed(100 * step + rank))
        optimizer.zero_grad()
        (model(batch) - batch.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
    if config.get("waits"):
        (directory / f"waits-{rank}").touch()
        torch.distributed.recv(torch.zeros(1), src=(rank + 1) % 4)  # nobody sends
    weights = [parameter.tolist() for parameter in model.parameters()]
    backend = torch.distributed.get_backend()
    path = directory / f"{config['name']}-{rank}.json"
    path.write_text(json.dumps([os.environ["INNET_NODE"], backend, weights]))


class Trainings:
    """Trainings over one network."""

    def __init__(self, network: str, directory: str) -> None:
        self._network = network
        self._directory = directory

    def run(self, name: str, torch_config: TorchConfig | None = None, **config: Any) -> None:
        """Train, and print how it ended."""
        trainer = TorchTrainer(
            train,
            train_loop_config={"name": name, "directory": self._directory, **config},
            torch_config=torch_config or InnetConfig(network=self._network),
            scaling_config=ScalingConfig(num_workers=config.get("workers", WORKERS)),
            run_config=RunConfig(
                storage_path=f"{self._directory}/store",
                failure_config=FailureConfig(max_failures=config.get("max_failures", 0)),
            ),
        )
        said: dict[str, str] = {}
        try:
            trainer.fit()
        except TrainingFailedError as error:
            failures = getattr(error, "worker_failures", {})
            said = {str(rank): str(failure) for rank, failure in failures.items()}
            said = said or {"error": str(error)}
        print(json.dumps([name, said]), flush=True)


def start_ray(network: str, directory: str) -> None:
    """Start Ray. It gives its own node 30 s, which may be too little beside other tests."""
    for attempt in range(STARTS):
        try:
            ray.init(
                num_cpus=WORKERS + 1,  # so a refused group has to give its share back
                include_dashboard=False,
                log_to_driver=False,
                _node_ip_address="127.0.0.1",
                _temp_dir=f"{directory}/ray{attempt}",
                runtime_env={"env_vars": {"INNET_NETWORK": network}},
            )
        except Exception as error:
            print(error, file=sys.stderr)
            ray.shutdown()
        else:
            return
    raise SystemExit("Ray does not start")


def main(network: str, directory: str) -> None:
    """All ways; the last one goes on until this program is interrupted."""
    with IPRoute() as routes:  # of a namespace that has nothing else
        routes.link("set", index=1, state="up")
    start_ray(network, directory)
    trainings = Trainings(network, directory)
    trainings.run("innet")
    trainings.run("registered", TorchConfig(backend="innet"))
    trainings.run("raises", raises=1)
    trainings.run("dies", dies=2, max_failures=1)
    trainings.run("too many", workers=WORKERS + 1)
    trainings.run("waits", waits=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
