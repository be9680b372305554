"""Trains a small model with DistributedDataParallel; prints the digest of its parameters."""

import hashlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import innet.torch_backend  # noqa: F401  # registers the backend

dist.init_process_group("innet")
torch.manual_seed(7)
model = DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Linear(256, 4))
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(8, 16, 64, generator=torch.Generator().manual_seed(1))
for step in range(5):
    batch = data[step][dist.get_rank() :: dist.get_world_size()]
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
parameters = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
print("parameters", hashlib.sha256(parameters.numpy().tobytes()).hexdigest(), flush=True)
dist.destroy_process_group()
