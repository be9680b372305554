"""Errors on their way through PyTorch's C++, and an end in mid-operation."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank = 0


def uneven():
    """As many elements as no other rank has: the operation on it fails on all ranks."""
    return torch.ones(10 + rank)


def hear(name, call):
    try:
        call()
    except RuntimeError as error:
        print(f"{name}: " + " ".join(str(error).split()))
    else:
        print(f"{name}: nothing")


def hook(_, bucket):
    work = dist.all_reduce(uneven(), async_op=True)
    return work.get_future().then(lambda future: [future.value()[0], bucket.buffer()][1])


def train():
    model = DistributedDataParallel(nn.Linear(3, 2))
    model.register_comm_hook(None, hook)
    model(torch.ones(4, 3)).sum().backward()


def wait_for_future():
    dist.all_reduce(uneven(), async_op=True).get_future().wait()


def main():
    global rank
    torch.set_num_threads(1)
    dist.init_process_group("innet")
    rank = dist.get_rank()
    world = dist.group.WORLD
    assert world is not None
    hear("wait", lambda: dist.all_reduce(uneven()))
    hear("future", wait_for_future)
    hear("functional", lambda: funcol.all_reduce(uneven(), "sum", world) + 1)
    hear("backward", train)
    hear("coalesced", lambda: dist.all_reduce_coalesced([torch.ones(3), uneven()]))
    hear("recv of another size", other_size)
    total = torch.ones(2)
    dist.all_reduce(total)
    print(f"goes on: {total.tolist()}")
    if rank == 0:  # it never ends; nor does the callback ever run
        dist.all_reduce(torch.ones(3), async_op=True).get_future().then(lambda _: None)
    print("ends")


def other_size():
    sent = dist.isend(torch.ones(5), (rank + 1) % dist.get_world_size())
    assert sent is not None
    try:
        dist.recv(torch.ones(6), (rank - 1) % dist.get_world_size())
    finally:
        sent.wait()


main()
