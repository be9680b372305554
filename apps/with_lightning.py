"""Trains with the Lightning Trainer over innet.

innet run star8 -- python apps/with_lightning.py
innet run star8 -- python apps/with_lightning.py --fsdp2
"""

from __future__ import annotations

import os
from typing import Any

import lightning
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, Strategy
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader
from with_frameworks.training import (
    WORKLOADS,
    StepTimer,
    add_models,
    argument_parser,
    report,
)


class _Module(lightning.LightningModule):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.timer = StepTimer()
        self.last_loss = torch.zeros(())

    def configure_model(self) -> None:
        if self.device_mesh is None:  # data parallel
            return
        for part in list(self.model.modules()):
            if isinstance(part, nn.Linear):
                fully_shard(part, mesh=self.device_mesh["data_parallel"])
        fully_shard(self.model, mesh=self.device_mesh["data_parallel"])

    def training_step(self, batch: dict[str, torch.Tensor], _: int) -> torch.Tensor:
        loss: torch.Tensor = self.model(**batch)["loss"]
        self.last_loss = loss.detach()
        return loss

    def on_train_batch_end(self, *arguments: Any) -> None:
        self.timer.end_step()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def _strategy(backend: str, *, is_sharded: bool) -> Strategy:
    if not is_sharded:
        return DDPStrategy(process_group_backend=backend)
    return ModelParallelStrategy(
        data_parallel_size=int(os.environ["WORLD_SIZE"]),
        tensor_parallel_size=1,
        process_group_backend=backend,
    )


def main() -> None:
    """Train, and print the loss and the time of a step."""
    parser = add_models(argument_parser(__doc__))
    parser.add_argument("--fsdp2", action="store_true", help="shard the model over the ranks")
    arguments = parser.parse_args()
    workload = WORKLOADS[arguments.model]
    module = _Module(workload.make_model())
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        num_nodes=int(os.environ["WORLD_SIZE"]),
        strategy=_strategy(arguments.backend, is_sharded=arguments.fsdp2),
        max_steps=arguments.steps,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(module, DataLoader(workload.make_data(), batch_size=workload.batch, shuffle=True))
    loss = trainer.strategy.reduce(module.last_loss, reduce_op="mean")
    report(float(loss), module.timer)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
