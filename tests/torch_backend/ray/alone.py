"""What one process learns from the batches of all ranks of ``trainer.py``."""

from __future__ import annotations

from typing import Any

import torch


def weights_learned_alone(ranks: int) -> list[Any]:
    """The parameters after the five steps that the ranks make."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        seeds = [torch.Generator().manual_seed(100 * step + rank) for rank in range(ranks)]
        batch = torch.cat([torch.randn(8, 4, generator=seed) for seed in seeds])
        optimizer.zero_grad()
        (model(batch) - batch.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
    return [parameter.tolist() for parameter in model.parameters()]
