"""A data-parallel training as PyTorch's tutorials write it for several processes of each host."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 4


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("innet")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    host, on_host = divmod(rank, int(os.environ["LOCAL_WORLD_SIZE"]))
    assert (host, on_host) == (int(os.environ["GROUP_RANK"]), local_rank)
    torch.manual_seed(3)
    model = DistributedDataParallel(nn.Linear(2000, 50))
    start = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(STEPS, dist.get_world_size(), 8, 2000)
    for step in range(STEPS):
        optimizer.zero_grad()
        model(inputs[step, rank]).square().mean().backward()
        optimizer.step()
    mine = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
    everybodys = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(everybodys, mine)
    same = all(torch.equal(mine, other) for other in everybodys)
    moved = not torch.equal(mine, start)
    print(f"{rank}: {local_rank} on host {host}, same {same}, trained {moved}")
    dist.destroy_process_group()


main()
