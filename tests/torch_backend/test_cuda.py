"""Tensors of a real CUDA device: the bits of the same operations on the CPU, in order."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from innet.torch_backend import staging
from innet.torch_backend.process_group import InnetProcessGroup
from tests.torch_backend.ranks import SIZE, Ranks, total, values, with_op, with_root

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device: there is none here"
    ),
]

SLEEP_CYCLES = 100_000_000
"""Of the device: longer than an operation of the network."""
TYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn),
    *(torch.uint8, torch.int32, torch.int64, torch.complex64),
)
Results = dict[str, torch.Tensor]


def reductions(group: InnetProcessGroup, device: str) -> Results:
    """Every type and operator, and tensors with strides."""
    rank = group.rank()
    done = {}
    for dtype in TYPES:
        done[f"sum of {dtype}"] = tensor = values(rank, 5000, dtype=dtype).to(device)
        group.allreduce([tensor]).wait()
    for op in (ReduceOp.AVG, ReduceOp.MIN, ReduceOp.MAX, ReduceOp.PRODUCT):
        done[f"{op}"] = tensor = torch.randn(999, generator=_seeded(rank)).to(device)
        group.allreduce([tensor], with_op(dist.AllreduceOptions(), op)).wait()
    factor = torch.tensor([0.5], device=device)
    done["multiplied"] = tensor = values(rank, 100).to(device)
    scaled = dist._make_nccl_premul_sum(factor)
    group.allreduce([tensor], with_op(dist.AllreduceOptions(), scaled)).wait()
    done["columns"] = whole = values(rank, 60, 50).to(device)
    group.allreduce([whole[:, ::2]]).wait()
    done["transposed"] = whole = torch.randn(3, 70, 50, generator=_seeded(rank)).to(device)
    group.allreduce([whole.permute(2, 0, 1)]).wait()
    whole = torch.randn(50, dtype=torch.complex64, generator=_seeded(rank))
    done["conjugate"] = whole = whole.to(device)
    group.allreduce([whole.conj()]).wait()
    done["empty"] = tensor = torch.empty(0, device=device)
    group.allreduce([tensor]).wait()
    return done


def copies(group: InnetProcessGroup, device: str) -> Results:
    """Everything but reductions to all ranks, all outstanding at once."""
    rank = group.rank()
    mine = torch.randn(SIZE * 2, 3, generator=_seeded(rank)).to(device, torch.bfloat16)

    def room(*shape: int) -> torch.Tensor:
        return torch.empty(shape, device=device, dtype=mine.dtype)

    done = {
        "rooted": mine.clone(),
        "broadcast": mine.clone(),
        "gathered": room(SIZE * SIZE * 2, 3),
        "scattered": room(2, 3),
        "part": room(2, 3),
        "exchanged": room(SIZE * 2, 3),
        "uneven": room(SIZE * 2, 3),
        "received": room(SIZE * 2, 3),
        "strided": mine.T.contiguous().T,
    }
    listed = [room(SIZE * 2, 3) for _ in range(SIZE)]
    from_root = [list(mine.split(2))] if rank == 3 else []
    at_root = [[room(SIZE * 2, 3) for _ in range(SIZE)]] if rank == 1 else []
    works = [
        group.reduce([done["rooted"]], with_root(dist.ReduceOptions(), 1)),
        group.broadcast([done["broadcast"]], with_root(dist.BroadcastOptions(), 2)),
        group.all_gather_single(done["gathered"], mine),
        group.allgather([listed], [mine]),
        group.reduce_scatter_single(done["scattered"], mine),
        group.scatter([done["part"]], from_root, with_root(dist.ScatterOptions(), 3)),
        group.gather(at_root, [mine], with_root(dist.GatherOptions(), 1)),
        group.all_to_all_single(done["exchanged"], mine, [], []),
        group.all_to_all_single(done["uneven"], mine, [2] * SIZE, [2] * SIZE),
        group.send([mine], (rank + 1) % SIZE, 0),
        group.recv([done["received"]], (rank - 1) % SIZE, 0),
        group.broadcast([done["strided"]], with_root(dist.BroadcastOptions(), 0)),
    ]
    for work in works:
        work.wait()
    return done | {"listed": torch.cat(listed), "at root": torch.cat(sum(at_root, [mine]))}


def _seeded(rank: int) -> torch.Generator:
    return torch.Generator().manual_seed(rank)


@pytest.mark.parametrize("program", [reductions, copies])
def test_results_equal_those_of_the_cpu_to_the_bit(
    ranks: Ranks, program: Callable[[InnetProcessGroup, str], Results]
) -> None:
    on_device = ranks.run(lambda group: program(group, "cuda"))
    on_host = ranks.run(lambda group: program(group, "cpu"))
    for here, there in zip(on_device, on_host, strict=True):
        assert here.keys() == there.keys()
        for name, tensor in here.items():
            assert tensor.is_cuda
            assert _bits(tensor.cpu()).equal(_bits(there[name])), name


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.resolve_conj().contiguous().view(torch.uint8)


def test_operations_follow_the_stream_of_their_call(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> tuple[torch.Tensor, torch.Tensor]:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            large = torch.zeros(32 << 20, device="cuda")
            torch.cuda._sleep(SLEEP_CYCLES)  # the value comes after the call
            large += group.rank()
            reduced = group.allreduce([large])
            gathered = torch.empty(SIZE * 1000, device="cuda")
            collected = group.all_gather_single(gathered, large[:1000].clone())
            reduced.wait()
            collected.wait()
            large *= 2
        stream.synchronize()
        return large.cpu(), gathered.cpu()

    for large, gathered in ranks.run(program):
        assert (large == 2 * sum(range(SIZE))).all()
        assert torch.equal(gathered, torch.arange(SIZE).float().repeat_interleave(1000))


def test_a_result_is_stored_after_earlier_reads_of_the_tensor(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.cuda.stream(torch.cuda.Stream()):
            tensor = values(group.rank(), 1000).cuda()
            if group.rank() != 0:
                torch.cuda._sleep(SLEEP_CYCLES)
            before = tensor * 1
            group.broadcast([tensor]).wait()
            after = tensor * 1
            return before.cpu(), after.cpu()

    for rank, (before, after) in enumerate(ranks.run(program)):
        assert torch.equal(before, values(rank, 1000))
        assert torch.equal(after, values(0, 1000))


def test_large_tensors_in_chunks_leak_no_memory(
    ranks: Ranks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "CHUNK_BYTES", 40_000)

    def program(group: InnetProcessGroup) -> torch.Tensor:
        tensors = [values(group.rank(), 100, 1000).cuda() for _ in range(3)]
        works = [group.allreduce([tensor]) for tensor in tensors]
        for work in reversed(works):
            work.wait()
        assert tensors[0].equal(tensors[1])
        assert tensors[0].equal(tensors[2])
        return tensors[0].cpu()

    def used_bytes() -> int:
        gc.collect()
        torch.cuda.synchronize()
        return torch.cuda.memory_allocated()

    before = used_bytes()
    for tensor in ranks.run(program):
        assert torch.equal(tensor, total(100, 1000))
    assert used_bytes() == before


def test_a_future_completes_when_every_stream_can_read_the_result(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> torch.Tensor:
        tensor = values(group.rank(), 1 << 20).cuda()
        future = group.allreduce([tensor]).get_future()
        found: torch.Tensor = future.then(lambda done: done.value()[0].cpu()).wait()
        return found

    for tensor in ranks.run(program):
        assert torch.equal(tensor, total(1 << 20))


@pytest.mark.parametrize("size", [2, SIZE])
def test_processes_that_share_a_device_train_as_one(run_job: Any, size: int) -> None:
    result = run_job("cuda_training.py", topology=f"star:{size}")
    assert result.failure == ""
    for rank in range(size):
        said = result.said(f"h{rank}")
        for way in ("replicated", "sharded"):
            assert f"{way}: same bits True, as alone True" in said
