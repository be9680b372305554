"""Every operation of torch.distributed over innet and over Gloo, with the same tensors.

Its argument is the device of innet's tensors; Gloo's are on the CPU.
"""

import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.distributed.distributed_c10d import _coalescing_manager

OPERATORS = ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
BITS = ("BAND", "BOR", "BXOR")


def values(*shape, seed=0, dtype=torch.float32):
    generator = torch.Generator("cpu").manual_seed(1000 * seed + dist.get_rank())
    drawn = torch.randint(1, 4, shape, generator=generator, device="cpu")
    return drawn.to(torch.get_default_device(), dtype)


def reductions(group):
    for name in OPERATORS:
        dtypes = (torch.int32, torch.uint8) if name in BITS else (torch.float32, torch.int64)
        for dtype in dtypes:
            tensor = values(100, dtype=dtype)
            dist.all_reduce(tensor, getattr(dist.ReduceOp, name), group=group)
            yield tensor


def complex_numbers(group):
    tensor = torch.complex(values(10), values(10, seed=1))
    dist.all_reduce(tensor, group=group)
    outputs = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(outputs, tensor, group=group)
    yield from (tensor, *outputs)


def rooted(group):
    size, rank = dist.get_world_size(), dist.get_rank()
    tensor = values(7)
    dist.broadcast(tensor, 2, group=group)
    yield tensor
    tensor = values(7)
    dist.reduce(tensor, 1, group=group)
    if rank == 1:
        yield tensor
    outputs = [torch.empty(7) for _ in range(size)] if rank == 3 else None
    dist.gather(values(7), outputs, 3, group=group)
    yield from outputs or ()
    output = torch.empty(7)
    dist.scatter(output, list(values(size, 7)) if rank == 0 else None, 0, group=group)
    yield output


def gathered(group):
    size = dist.get_world_size()
    outputs = [torch.empty(3, 2) for _ in range(size)]
    dist.all_gather(outputs, values(3, 2), group=group)
    yield from outputs
    output = torch.empty(size * 3, 2)
    dist.all_gather_into_tensor(output, values(3, 2), group=group)
    yield output


def scattered(group):
    size = dist.get_world_size()
    output = torch.empty(3, 2)
    dist.reduce_scatter(output, list(values(size, 3, 2)), group=group)
    yield output
    output = torch.empty(3, 2)
    dist.reduce_scatter_tensor(output, values(size * 3, 2), group=group)
    yield output


def exchanged(group):
    size, rank = dist.get_world_size(), dist.get_rank()
    output = torch.empty(size, 3)
    dist.all_to_all_single(output, values(size, 3), group=group)
    yield output
    outgoing = [(rank + peer) % 3 for peer in range(size)]
    output = torch.empty(sum(outgoing), 3)  # the sizes are symmetric
    dist.all_to_all_single(output, values(sum(outgoing), 3), outgoing, outgoing, group=group)
    yield output


def messages(group):
    size, rank = dist.get_world_size(), dist.get_rank()
    right, left = (rank + 1) % size, (rank - 1) % size
    received = torch.empty(5)
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, values(5), right, group),
            dist.P2POp(dist.irecv, received, left, group),
        ]
    )
    for work in works:
        work.wait()
    yield received
    if rank == 0:
        dist.send(values(5), 1, group=group, tag=4)
    if rank == 1:
        received = torch.empty(5)
        assert dist.recv(received, 0, group=group, tag=4) == 0
        yield received


def objects(group):
    size, rank = dist.get_world_size(), dist.get_rank()
    mine = {"rank": rank, "text": "x" * 100 * rank}
    everyones = [None] * size
    dist.all_gather_object(everyones, mine, group=group)
    yield everyones
    listed = [mine, rank] if rank == 1 else [None, None]
    dist.broadcast_object_list(listed, 1, group=group)
    yield listed
    collected = [None] * size if rank == 2 else None
    dist.gather_object(mine, collected, 2, group=group)
    yield collected
    got = [None]
    dist.scatter_object_list(got, [[r] * r for r in range(size)] if rank == 0 else None, 0, group)
    yield got
    if rank == 0:
        dist.send_object_list([mine], 3, group=group)
    if rank == 3:
        got = [None]
        dist.recv_object_list(got, 0, group=group)
        yield got


def functional(group):
    size = dist.get_world_size()
    yield funcol.all_reduce(values(6), "sum", group)
    yield from funcol.all_reduce_coalesced([values(6), values(2, 2)], "max", group)
    yield funcol.all_gather_tensor(values(6), 0, group)
    yield funcol.all_gather_tensor(values(6, 2), 1, group)
    yield from funcol.all_gather_into_tensor_coalesced([values(6), values(3)], group)
    yield funcol.reduce_scatter_tensor(values(6 * size), "sum", 0, group)
    yield from funcol.reduce_scatter_tensor_coalesced(
        [values(size), values(2 * size)], "sum", [0, 0], group
    )
    yield funcol.all_to_all_single(values(size, 2), None, None, group)
    yield funcol.all_to_all_single(values(size, 2), [1] * size, [1] * size, group)
    yield funcol.broadcast(values(6), 2, group)


def coalesced(group):
    size = dist.get_world_size()
    tensors = [values(6), values(2, 2)]
    with _coalescing_manager(group=group):
        for tensor in tensors:
            dist.all_reduce(tensor, group=group)
    yield from tensors
    outputs = [torch.empty(2 * size), torch.empty(size)]
    with _coalescing_manager(group=group, async_ops=True) as manager:
        dist.all_gather_into_tensor(outputs[0], values(2), group=group)
        dist.all_gather_into_tensor(outputs[1], values(1), group=group)
    manager.wait()
    yield from outputs


CASES = (
    reductions,
    complex_numbers,
    rooted,
    gathered,
    scattered,
    exchanged,
    messages,
    objects,
    functional,
    coalesced,
)


def same(ours, theirs):
    if isinstance(ours, torch.Tensor):
        return torch.equal(ours.cpu(), theirs)
    return ours == theirs


def main():
    torch.set_num_threads(1)
    dist.init_process_group("innet")
    gloo = dist.new_group(backend="gloo")
    for case in CASES:
        with torch.device(sys.argv[1]):
            ours = list(case(dist.group.WORLD))
        theirs = list(case(gloo))
        agree = len(ours) == len(theirs) and all(map(same, ours, theirs))
        print(f"{case.__name__}: agree {agree}" + ("" if agree else f" {ours} {theirs}"))
    print("all cases done")
    dist.destroy_process_group()


main()
