"""Makes the default group again and again, each time with a group of Gloo beside it."""

import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterDataPipe


class Numbers(IterDataPipe[int]):
    def __iter__(self):
        yield from range(4)


rounds = int(sys.argv[1])
for _ in range(rounds):
    dist.init_process_group("innet")
    dist.barrier()
    beside = dist.new_group(backend="gloo")
    for group in (None, beside):
        total = torch.ones(3)
        dist.all_reduce(total, group=group)
        assert total[0] == dist.get_world_size()
    dist.destroy_process_group()
dist.init_process_group("innet")
loaded = sum(int(number) for number in DataLoader(Numbers()))  # shares a seed over Gloo
dist.destroy_process_group()
print(f"rounds {rounds}, loaded {loaded}")
