"""Functional collectives in a compiled function: traced with fake tensors, then run for real."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol


def chain(tensor):
    group = dist.group.WORLD
    summed = funcol.all_reduce(tensor * 2, "sum", group)
    gathered = funcol.all_gather_tensor(summed, 0, group)
    scattered = funcol.reduce_scatter_tensor(gathered, "sum", 0, group)
    return funcol.all_to_all_single(scattered + dist.get_rank(), None, None, group)


torch.set_num_threads(1)
dist.init_process_group("innet")
values = torch.arange(8.0)
compiled = torch.compile(chain, backend="aot_eager", fullgraph=True)
print(f"compiled as it is: {torch.equal(compiled(values), chain(values))}")
dist.destroy_process_group()
