"""Process groups of every kind: subsets in any order, meshes, and again after their end."""

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh


def total(value, group=None):
    tensor = torch.full((300,), float(value))
    dist.all_reduce(tensor, group=group)
    assert (tensor == tensor[0]).all()
    return int(tensor[0])


def report(what, value):
    print(f"{what}: {value}")


# PyTorch's ranks need not be those of innet run: these run backwards.
size = int(os.environ["WORLD_SIZE"])
rank = size - 1 - int(os.environ["RANK"])
store = dist.FileStore(str(Path(os.environ["INNET_SETTINGS"]).with_name("store")), size)

for attempt in (1, 2):
    prefixed = dist.PrefixStore("world", store)
    dist.init_process_group("innet", store=prefixed, rank=rank, world_size=size)
    report(f"world {attempt}", total(10**rank))
    gathered = [None] * size
    dist.all_gather_object(gathered, rank)
    report("order", gathered)
    if attempt == 1:
        dist.destroy_process_group()

pair, rest = dist.new_group([0, 2]), dist.new_group([3, 1, 0])
if rank in (0, 2):
    report("pair", total(10**rank, pair))
if rank in (0, 1, 3):
    report("rest", total(10**rank, rest))
alone = [dist.new_group([member]) for member in range(size)]
report("alone", total(10**rank, alone[rank]))

mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
report("rows", total(10**rank, mesh.get_group("rows")))
report("columns", total(10**rank, mesh.get_group("columns")))

again = dist.new_group([0, 2])
if rank in (0, 2):
    report("again", total(10**rank, again))
    dist.destroy_process_group(pair)
    report("still", total(10**rank, again))
dist.barrier()
dist.destroy_process_group()
