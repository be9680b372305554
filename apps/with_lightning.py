"""Trains with the Lightning Trainer over innet.

innet run star8 -- python apps/with_lightning.py
"""

from __future__ import annotations

import os
from typing import Any

import lightning
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy
from torch import nn
from torch.utils.data import DataLoader
from with_frameworks.training import (
    WORKLOADS,
    StepTimer,
    parse_arguments,
    report,
)


class _Module(lightning.LightningModule):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.timer = StepTimer()
        self.last_loss = torch.zeros(())

    def training_step(self, batch: dict[str, torch.Tensor], _: int) -> torch.Tensor:
        loss: torch.Tensor = self.model(**batch)["loss"]
        self.last_loss = loss.detach()
        return loss

    def on_train_batch_end(self, *arguments: Any) -> None:
        self.timer.end_step()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main() -> None:
    """Train, and print the loss and the time of a step."""
    arguments = parse_arguments(__doc__)
    workload = WORKLOADS[arguments.model]
    module = _Module(workload.make_model())
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        num_nodes=int(os.environ["WORLD_SIZE"]),
        strategy=DDPStrategy(process_group_backend=arguments.backend),
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
