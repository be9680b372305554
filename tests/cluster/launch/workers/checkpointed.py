"""Trains with checkpoints. Args: their folder; ``fails``: one rank raises on the first attempt."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn

STEPS, FAILS_AT = 6, 4
checkpoint = Path(sys.argv[1])
fails = sys.argv[2:] == ["fails"] and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"

torch.set_num_threads(1)
dist.init_process_group("innet")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(3)
model = nn.Linear(20, 3)
inputs = torch.randn(STEPS, size, 8, 20)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
first = 0
if (checkpoint / ".metadata").exists():
    parameters, step_saved = model.state_dict(), torch.zeros((), dtype=torch.long)
    dcp.load({"model": parameters, "step": step_saved}, checkpoint_id=checkpoint)
    model.load_state_dict(parameters)
    first = int(step_saved)
for step in range(first, STEPS):
    if step == FAILS_AT and fails and rank == 1:
        raise RuntimeError("a bad day")
    optimizer.zero_grad()
    model(inputs[step, rank]).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
    optimizer.step()
    dcp.save(
        {"model": model.state_dict(), "step": torch.tensor(step + 1)}, checkpoint_id=checkpoint
    )
bits = [parameter.detach().numpy().tobytes().hex() for parameter in model.parameters()]
print(f"from {first}: {''.join(bits)}")
dist.destroy_process_group()
