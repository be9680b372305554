"""Trains a small model with DistributedDataParallel; prints the digest of its parameters.

ddp.py [FILE]: rank 0 writes them there. Outside of a job, one process trains alone.
"""

import hashlib
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import innet.torch_backend  # noqa: F401  # registers the backend

torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Linear(256, 4))
rank, size = 0, 1
trained: torch.nn.Module = model
if "WORLD_SIZE" in os.environ:
    dist.init_process_group("innet")
    rank, size = dist.get_rank(), dist.get_world_size()
    trained = DistributedDataParallel(model)
optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
data = torch.randn(8, 16, 64, generator=torch.Generator().manual_seed(1))
for step in range(5):
    batch = data[step][rank::size]
    optimizer.zero_grad()
    trained(batch).square().mean().backward()
    optimizer.step()
parameters = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
print("parameters", hashlib.sha256(parameters.numpy().tobytes()).hexdigest(), flush=True)
if rank == 0 and sys.argv[1:]:
    torch.save(parameters, sys.argv[1])
if dist.is_initialized():
    dist.destroy_process_group()
