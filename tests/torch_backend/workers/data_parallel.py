"""DistributedDataParallel over every algorithm, beside the same training without a network."""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from innet.torch_backend import Options

STEPS = 6
PART = 8


def make_model():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(20, 300), nn.ReLU(), nn.BatchNorm1d(300), nn.Linear(300, 5))


def train(model, images, labels):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model.eval()  # one batch of 32 and four of 8 have different means: BatchNorm must not see them
    for step in range(STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[step]), labels[step]).backward()
        optimizer.step()


def parameters(model):
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def main():
    torch.set_num_threads(1)
    dist.init_process_group("innet")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)
    images, labels = torch.randn(STEPS, PART * size, 20), torch.randint(5, (STEPS, PART * size))
    alone = make_model()
    train(alone, images, labels)
    mine = slice(rank * PART, (rank + 1) * PART)
    for algorithm in ("inc", "ring", "ps"):
        group = dist.new_group(pg_options=Options(algorithm=algorithm))
        model = make_model()
        if rank != 0:
            for parameter in model.parameters():
                nn.init.zeros_(parameter)  # what rank 0 has must arrive
        # Small buckets: several operations are under way while gradients are still computed.
        parallel = DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.01)
        train(parallel, images[:, mine], labels[:, mine])
        mine_now = parameters(model)
        everybodys = [torch.empty_like(mine_now) for _ in range(size)]
        dist.all_gather(everybodys, mine_now, group=group)
        same = all(torch.equal(mine_now, other) for other in everybodys)
        close = torch.allclose(mine_now, parameters(alone), rtol=1e-4, atol=1e-6)
        print(f"{algorithm}: same bits {same}, as alone {close}")
    objects: list[Any] = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    print(f"objects {[found['rank'] for found in objects]}")
    dist.destroy_process_group()


main()
