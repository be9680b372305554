"""Every operation of the backend gives what PyTorch's semantics ask for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp
from torch.masked import masked_tensor

from innet.errors import CollectiveError, MismatchError
from innet.torch_backend.process_group import InnetProcessGroup
from tests.torch_backend.ranks import (
    SIZE,
    Program,
    Ranks,
    everybody,
    total,
    values,
    with_op,
    with_root,
)

pytestmark = pytest.mark.torch

ELEMENTS = 5000
MASK = torch.tensor([True, False])
TYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int32,
    torch.int64,
    torch.uint8,
)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_allreduce_adds_every_type(ranks: Ranks, dtype: torch.dtype) -> None:
    def program(group: InnetProcessGroup) -> torch.Tensor:
        tensor = values(group.rank(), ELEMENTS, dtype=dtype)
        group.allreduce([tensor]).wait()
        return tensor

    for tensor in ranks.run(program):
        assert torch.equal(tensor, total(ELEMENTS, dtype=dtype))


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (ReduceOp.AVG, lambda stack: stack.mean(0)),
        (ReduceOp.MIN, lambda stack: stack.amin(0)),
        (ReduceOp.MAX, lambda stack: stack.amax(0)),
        (ReduceOp.PRODUCT, lambda stack: stack.prod(0)),
    ],
    ids=["avg", "min", "max", "product"],
)
def test_allreduce_supports_the_other_operators(
    ranks: Ranks, op: Any, expected: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    def program(group: InnetProcessGroup) -> torch.Tensor:
        tensor = values(group.rank(), ELEMENTS)
        group.allreduce([tensor], with_op(dist.AllreduceOptions(), op)).wait()
        return tensor

    for tensor in ranks.run(program):
        assert torch.equal(tensor, expected(torch.stack(everybody(ELEMENTS))))


@pytest.mark.parametrize(
    ("dtype", "large"),
    [(torch.float16, 60000), (torch.float8_e4m3fn, 448), (torch.float8_e5m2, 57344)],
    ids=str,
)
def test_a_mean_that_fits_its_type_does_not_overflow(
    ranks: Ranks, dtype: torch.dtype, large: float
) -> None:
    def program(group: InnetProcessGroup) -> list[torch.Tensor]:
        everywhere = torch.full((3,), large).to(dtype)
        at_root = everywhere.clone()
        options = with_op(dist.ReduceOptions(), ReduceOp.AVG)
        options.rootRank = 1
        group.reduce([at_root], options).wait()
        parts = [everywhere.clone() for _ in range(group.size())]
        part, whole = torch.empty(3, dtype=dtype), torch.empty(3, dtype=dtype)
        scatter = with_op(dist.ReduceScatterOptions(), ReduceOp.AVG)
        group.reduce_scatter([part], [parts], scatter).wait()
        group.reduce_scatter_single(whole, torch.cat(parts), scatter).wait()
        group.allreduce([everywhere], with_op(dist.AllreduceOptions(), ReduceOp.AVG)).wait()
        return [everywhere, at_root, part, whole]

    for results in ranks.run(program):
        for tensor in results:
            assert tensor.float().tolist() == [float(torch.tensor(large).to(dtype))] * 3


def test_a_tensor_that_is_not_contiguous_is_reduced_in_place(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> tuple[torch.Tensor, torch.Tensor]:
        whole = values(group.rank(), 60, 50)
        group.allreduce([whole[:, ::2]]).wait()
        return whole[:, ::2], whole[:, 1::2]

    for rank, (reduced, untouched) in enumerate(ranks.run(program)):
        assert torch.equal(reduced, total(60, 50)[:, ::2])
        assert torch.equal(untouched, values(rank, 60, 50)[:, 1::2])


def test_broadcast_sends_the_roots_tensor(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> torch.Tensor:
        tensor = values(group.rank(), ELEMENTS, dtype=torch.bfloat16)
        group.broadcast([tensor], with_root(dist.BroadcastOptions(), 2)).wait()
        return tensor

    for tensor in ranks.run(program):
        assert torch.equal(tensor, values(2, ELEMENTS, dtype=torch.bfloat16))


def test_reduce_writes_only_on_the_root(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> torch.Tensor:
        tensor = values(group.rank(), ELEMENTS)
        group.reduce([tensor], with_root(dist.ReduceOptions(), 1)).wait()
        return tensor

    for rank, tensor in enumerate(ranks.run(program)):
        assert torch.equal(tensor, total(ELEMENTS) if rank == 1 else values(rank, ELEMENTS))


def test_allgather_orders_by_rank(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> tuple[list[torch.Tensor], torch.Tensor]:
        mine = values(group.rank(), 30, 7)
        listed = [torch.empty(30, 7) for _ in range(SIZE)]
        group.allgather([listed], [mine]).wait()
        single = torch.empty(SIZE * 30, 7)
        group.all_gather_single(single, mine).wait()
        return listed, single

    for listed, single in ranks.run(program):
        assert torch.equal(torch.stack(listed), torch.stack(everybody(30, 7)))
        assert torch.equal(single, torch.cat(everybody(30, 7)))


def test_reduce_scatter_gives_each_rank_its_part(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> tuple[torch.Tensor, torch.Tensor]:
        mine = values(group.rank(), SIZE, 900)
        listed, single = torch.empty(900), torch.empty(900)
        group.reduce_scatter([listed], [list(mine)]).wait()
        options = with_op(dist.ReduceScatterOptions(), ReduceOp.AVG)
        group.reduce_scatter_single(single, mine.reshape(-1), options).wait()
        return listed, single

    for rank, (listed, single) in enumerate(ranks.run(program)):
        assert torch.equal(listed, total(SIZE, 900)[rank])
        assert torch.equal(single, total(SIZE, 900)[rank] / SIZE)


def test_gather_and_scatter_respect_their_root(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> tuple[list[torch.Tensor], torch.Tensor]:
        at_root = group.rank() == 3
        gathered = [torch.empty(40) for _ in range(SIZE)] if at_root else []
        group.gather(
            [gathered] if at_root else [],
            [values(group.rank(), 40)],
            with_root(dist.GatherOptions(), 3),
        ).wait()
        scattered = torch.empty(40)
        parts = [list(values(9, SIZE, 40))] if at_root else []
        group.scatter([scattered], parts, with_root(dist.ScatterOptions(), 3)).wait()
        return gathered, scattered

    for rank, (gathered, scattered) in enumerate(ranks.run(program)):
        if rank == 3:
            assert torch.equal(torch.stack(gathered), torch.stack(everybody(40)))
        assert torch.equal(scattered, values(9, SIZE, 40)[rank])


def test_alltoall_exchanges_parts(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> tuple[list[torch.Tensor], torch.Tensor]:
        mine = values(group.rank(), SIZE, 25)
        listed = [torch.empty(25) for _ in range(SIZE)]
        group.alltoall(listed, list(mine)).wait()
        single = torch.empty(SIZE, 25)
        group.all_to_all_single(single, mine, [], []).wait()
        return listed, single

    for rank, (listed, single) in enumerate(ranks.run(program)):
        expected = torch.stack([tensor[rank] for tensor in everybody(SIZE, 25)])
        assert torch.equal(torch.stack(listed), expected)
        assert torch.equal(single, expected)


def test_messages_arrive_in_order_and_name_their_sender(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> tuple[torch.Tensor, torch.Tensor, int] | None:
        if group.rank() == 0:
            group.send([torch.full((100,), 1.0)], 2, 7).wait()
            group.send([torch.full((100,), 2.0)], 2, 7).wait()
        if group.rank() != 2:
            return None
        first, second = torch.empty(100), torch.empty(100)
        work = group.recv([first], 0, 7)
        work.wait()
        group.recv([second], 0, 7).wait()
        return first, second, work.source_rank()

    first, second, sender = ranks.run(program)[2]
    assert (first == 1).all()
    assert (second == 2).all()
    assert sender == 0


def test_a_barrier_ends_when_all_have_come(ranks: Ranks) -> None:
    come: list[int] = []
    lock = threading.Lock()

    def program(group: InnetProcessGroup) -> int:
        with lock:
            come.append(group.rank())
        group.barrier().wait()
        return len(come)

    assert ranks.run(program) == [SIZE] * SIZE


def test_callbacks_of_futures_can_wait_for_other_operations(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> torch.Tensor:
        def halve_then_add_again(future: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
            (tensor,) = future.value()
            tensor /= 2
            group.allreduce([tensor]).wait()
            return group.allreduce([tensor]).get_future().wait()[0]

        future = group.allreduce([torch.ones(8)]).get_future()
        return future.then(halve_then_add_again).wait()

    for tensor in ranks.run(program):
        assert (tensor == SIZE / 2 * SIZE * SIZE).all()


def test_a_work_tells_when_it_is_complete(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> bool:
        work = group.allreduce([torch.ones(8)])
        work.wait()
        return work.is_completed() and work.is_success() and work.exception() is None

    assert ranks.run(program) == [True] * SIZE


def test_all_ranks_get_a_mismatch_error(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> tuple[str, bool]:
        work = group.allreduce([torch.ones(100 + group.rank())])
        future = work.get_future()
        with pytest.raises(MismatchError):
            work.wait()
        with pytest.raises(RuntimeError, match="shape") as caught:
            future.wait()
        return str(caught.value), work.is_success()

    for outcome in ranks.run(program):
        text, success = outcome
        assert "MismatchError" in text
        assert not success


@pytest.mark.parametrize(
    ("start", "advice"),
    [
        (lambda g: g.allreduce([torch.ones(3, dtype=torch.complex32)]), "tensor.to"),
        (lambda g: g.allreduce([torch.ones(3), torch.ones(3)]), "takes one"),
        (
            lambda g: g.allreduce(
                [torch.ones(3, dtype=torch.int32)], with_op(dist.AllreduceOptions(), ReduceOp.AVG)
            ),
            "ReduceOp.SUM",
        ),
        (lambda g: g.broadcast([torch.ones(3).to_sparse()]), "to_dense"),
        (lambda g: g.broadcast([masked_tensor(torch.ones(2), MASK)]), "MaskedTensor is more than"),
        (lambda g: g.allreduce([masked_tensor(torch.ones(2), MASK)]), "MaskedTensor is more than"),
        (
            lambda g: g.allreduce([torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])]),
            "row",
        ),
        (lambda g: g.broadcast([torch.ones(3, device="meta")]), "tensor.cpu"),
        (
            lambda g: g.broadcast([torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)]),
            r"int_repr\(\)",
        ),
        (lambda g: g.allgather([[torch.ones(3)]], [torch.ones(3)]), "one for each rank"),
        (lambda g: g.all_gather_single(torch.ones(7), torch.ones(2)), "4 times the 2"),
        (lambda g: g.all_to_all_single(torch.ones(5), torch.ones(5), [2, 3], [2, 3]), "sum up"),
        (lambda g: g.all_to_all_single(torch.ones(5), torch.ones(5), [], []), "do not divide"),
    ],
)
def test_unsupported_operations_are_refused_with_advice(
    ranks: Ranks, start: Program, advice: str
) -> None:
    with pytest.raises(CollectiveError, match=advice):
        start(ranks.groups[0])
