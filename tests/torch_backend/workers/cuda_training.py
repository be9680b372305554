"""DistributedDataParallel and FSDP2 over innet on a CUDA device that all ranks share.

Each is compared with the same training without a network.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

STEPS = 6
PART = 8
WIDTH = 512
DEVICE = "cuda:0"


def make_model() -> nn.Sequential:
    torch.manual_seed(5)
    layers = [nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 5)).to(DEVICE)


def train(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[step]), labels[step]).backward()
        optimizer.step()


def parameters(model: nn.Module) -> torch.Tensor:
    whole = [
        each.full_tensor() if hasattr(each, "full_tensor") else each for each in model.parameters()
    ]
    return torch.cat([each.detach().reshape(-1) for each in whole])


def replicated(model: nn.Module) -> nn.Module:
    # Small buckets: several operations are under way while gradients are still computed.
    return DistributedDataParallel(model, device_ids=[0], bucket_cap_mb=1)


def sharded(model: nn.Module) -> nn.Module:
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    for layer in list(model.modules()):
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def main() -> None:
    torch.set_num_threads(1)
    torch.cuda.set_device(0)
    dist.init_process_group("innet")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)
    images = torch.randn(STEPS, PART * size, WIDTH).to(DEVICE)
    labels = torch.randint(5, (STEPS, PART * size)).to(DEVICE)
    alone = make_model()
    train(alone, images, labels)
    mine = slice(rank * PART, (rank + 1) * PART)
    for way in (replicated, sharded):
        model = way(make_model())
        train(model, images[:, mine], labels[:, mine])
        mine_now = parameters(model)
        everybodys = [torch.empty_like(mine_now) for _ in range(size)]
        dist.all_gather(everybodys, mine_now)
        same = all(torch.equal(mine_now, other) for other in everybodys)
        close = torch.allclose(mine_now, parameters(alone), rtol=1e-3, atol=1e-5)
        print(f"{way.__name__}: same bits {same}, as alone {close}")
    dist.destroy_process_group()


main()
