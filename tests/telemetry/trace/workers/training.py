"""A few steps of DistributedDataParallel with many small buckets, then of FSDP2 with prefetch."""

import torch
import torch.distributed as dist
from gpt.parallel import gather_ahead  # of apps/
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

LAYERS = 8
STEPS = 2


def make_layers():
    return [nn.Linear(256, 256) for _ in range(LAYERS)]


def replicated():
    return DistributedDataParallel(nn.Sequential(*make_layers()), bucket_cap_mb=0.25)


def sharded():
    layers = make_layers()
    model = nn.Sequential(*layers)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    sharded_layers = [fully_shard(layer, mesh=mesh) for layer in layers]
    gather_ahead(fully_shard(model, mesh=mesh), sharded_layers)
    return model


def main():
    torch.set_num_threads(1)
    dist.init_process_group("innet")
    for model in (replicated(), sharded()):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(torch.randn(512, 256)).square().mean().backward()
            optimizer.step()
    dist.destroy_process_group()


main()
