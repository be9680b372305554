"""Parts of groups, meshes, recordings that fail, and an abort."""

import contextlib
import threading
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import (
    _abort_process_group,
    _coalescing_manager,
    _get_default_store,
)


def summed(group=None):
    tensor = torch.full((3,), float(2 ** dist.get_rank()))
    dist.all_reduce(tensor, group=group)
    return int(tensor[0].item())


def split(world, rank):
    parts = [[0, 3], [1]]
    mine = next((part for part in parts if rank in part), parts[0])
    part = world.split_group(mine, timeout=timedelta(seconds=30))
    print(f"split: {None if part is None else (part.rank(), part.size(), summed(part))}")


def mesh():
    plane = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
    line = init_device_mesh("cpu", (4,))
    sums = [summed(plane.get_group(name)) for name in ("rows", "columns")]
    print(f"mesh: {sums} {summed(line.get_group())}")


def failing_recording(rank):
    bad = torch.ones(3).to_sparse()
    for device in (torch.device("cpu"), None):
        with contextlib.suppress(RuntimeError), _coalescing_manager(device=device):
            dist.broadcast(bad, 0)
    print(f"after a failed recording: {summed()}")
    with _coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        received = torch.empty(1)
        dist.isend(torch.full((1,), float(rank)), (rank + 1) % 4)
        dist.irecv(received, (rank - 1) % 4)
    manager.wait()
    print(f"recorded messages: {int(received.item())}")


def abort(rank):
    heard: list[str] = []

    def wait_for_nobody():
        work = dist.all_reduce(torch.ones(3), async_op=True)
        waiting.set()
        try:
            work.wait()
        except RuntimeError as error:
            heard.append(str(error))

    waiting = threading.Event()
    waiter = threading.Thread(target=wait_for_nobody)
    if rank != 3:  # without rank 3 it never ends
        waiter.start()
        waiting.wait()
    _abort_process_group()
    if rank != 3:
        waiter.join()
    print(f"aborted: {heard}")


def everyone_is_through(store):
    """An abort ends what others still wait for: nobody may be in the barrier any more."""
    store.add("through", 1)
    deadline = time.monotonic() + 60
    while store.add("through", 0) < dist.get_world_size():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("innet")
    rank = dist.get_rank()
    print(f"backend: {dist.get_backend()} {dist.get_backend_config()}")
    split(dist.group.WORLD, rank)
    mesh()
    failing_recording(rank)
    world: Any = dist.group.WORLD
    world.monitored_barrier(timedelta(seconds=30))
    everyone_is_through(_get_default_store())
    abort(rank)


main()
