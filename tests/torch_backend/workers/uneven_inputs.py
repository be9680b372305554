"""Three of four ranks run out of inputs; the last one goes on, with a parameter that is not used.

Says how many steps it took, whether all ranks ended with the same parameters, and whether the
gradients of a second training were divided by the number of ranks that still had inputs.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

_STEPS = 40

dist.init_process_group("innet")
rank = dist.get_rank()
torch.manual_seed(0)


class Partly(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used = torch.nn.Linear(3, 2)
        self.unused = torch.nn.Linear(3, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.used(inputs)
        return outputs


model = DistributedDataParallel(Partly(), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
steps = 0
with model.join():
    for _ in range(_STEPS if rank == 3 else rank):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).sum().backward()
        assert model.module.unused.weight.grad is None
        optimizer.step()
        steps += 1
flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
everyone = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
dist.all_gather(everyone, flat)
scaled = DistributedDataParallel(torch.nn.Linear(3, 1, bias=False))
mean = True
with scaled.join(divide_by_initial_world_size=False):
    for _ in range(1 + rank):
        scaled.zero_grad()
        scaled(torch.full((1, 3), 8.0)).sum().backward()
        mean &= torch.equal(scaled.module.weight.grad, torch.full((1, 3), 8.0))
same = all(torch.equal(flat, other) for other in everyone)
print(f"steps {steps}, same {same}, mean {mean}")
dist.destroy_process_group()
