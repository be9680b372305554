"""What is compiled gives what is not: functional collectives, and DistributedDataParallel.

The collectives are traced with fake tensors, then run for real. DistributedDataParallel's C++ calls
the process group in the middle of compiled code.
"""

import copy

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.nn.parallel import DistributedDataParallel


def chain(tensor):
    group = dist.group.WORLD
    assert group is not None
    summed = funcol.all_reduce(tensor * 2, "sum", group)
    gathered = funcol.all_gather_tensor(summed, 0, group)
    scattered = funcol.reduce_scatter_tensor(gathered, "sum", 0, group)
    return funcol.all_to_all_single(scattered + dist.get_rank(), None, None, group)


def gradients(model):
    for _ in range(3):  # the buckets are formed anew after the first
        model(torch.full((2, 4), float(dist.get_rank()))).sum().backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


torch.set_num_threads(1)
dist.init_process_group("innet")
values = torch.arange(8.0)
compiled = torch.compile(chain, backend="aot_eager", fullgraph=True)
print(f"compiled as it is: {torch.equal(compiled(values), chain(values))}")
torch.manual_seed(0)
model = torch.nn.Linear(4, 3)
parallel, other = DistributedDataParallel(model), DistributedDataParallel(copy.deepcopy(model))
compiled = torch.compile(other, backend="aot_eager")
print(f"trained as it is: {torch.equal(gradients(compiled), gradients(parallel))}")
dist.destroy_process_group()
