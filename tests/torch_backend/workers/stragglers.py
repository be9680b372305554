"""DistributedDataParallel that does not wait for rank 3, whose steps take long."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import innet
from innet.torch_backend import hooks

STEPS, SLOW = 12, 3
ELEMENTS = 64


def gradient(rank, step):
    """Whole numbers, so that sums are exact in any order."""
    return torch.full((1, ELEMENTS), float(10**rank * (step + 1)))


def applied(sets, size):
    """How the weights move by all steps, and what each rank has left, told from who was in them."""
    left = [torch.zeros(1, ELEMENTS) for _ in range(size)]
    weights = torch.zeros(1, ELEMENTS)
    for step, members in enumerate(sets):
        left = [pending + gradient(rank, step) for rank, pending in enumerate(left)]
        weights -= sum(left[rank] for rank in members) / len(members)
        left = [pending * (rank not in members) for rank, pending in enumerate(left)]
    return weights, left


torch.set_num_threads(1)
dist.init_process_group("innet")
rank, size = dist.get_rank(), dist.get_world_size()
layer = nn.Linear(ELEMENTS, 1, bias=False)
nn.init.zeros_(layer.weight)
model = DistributedDataParallel(layer)
state = hooks.KOfNState(model.parameters(), innet.KOfN(size))
model.register_comm_hook(state, hooks.k_of_n_hook)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
sets = []
for step in range(STEPS):
    waits_for_all = step in (0, STEPS - 1)
    state.policy = innet.KOfN(size if waits_for_all else size - 1)
    if rank == SLOW:
        time.sleep(0.05)  # what it computes
    optimizer.zero_grad()
    model(gradient(rank, step)).sum().backward()
    optimizer.step()
    sets.append(state.contributors[0])
weights, left = applied(sets, size)
everybody = tuple(range(size))
print(f"moved as the sets say {torch.equal(layer.weight.detach(), weights)}")
print(f"all at the ends {sets[0] == sets[-1] == everybody}")
print(f"once without it {any(SLOW not in members for members in sets)}")
print(f"nothing left {not state.state_dict()['residuals'][0].any()} {not left[rank].any()}")
digests = [None] * size
dist.all_gather_object(digests, (sets, layer.weight.detach().numpy().tobytes()))
print(f"the same everywhere {all(digest == digests[0] for digest in digests)}")
dist.destroy_process_group()
