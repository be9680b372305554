"""Sparse tensors: of different numbers of elements, between other operations, of other shapes."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from innet.errors import MismatchError
from innet.torch_backend.process_group import InnetProcessGroup
from tests.torch_backend.ranks import SIZE, Ranks, values, with_op

pytestmark = pytest.mark.torch


def sparse(rank: int, dense_dim: int = 0) -> torch.Tensor:
    """Not zero in ``rank`` places and some more; the same place in several ranks."""
    dense = torch.zeros(30, 4)
    dense[: 2 * rank] = values(rank, *dense[: 2 * rank].shape)
    return dense.to_sparse(dense.dim() - dense_dim)


@pytest.mark.parametrize("dense_dim", [0, 1])
@pytest.mark.parametrize("op", [ReduceOp.SUM, ReduceOp.AVG], ids=["sum", "avg"])
def test_sparse_tensors_add_up(ranks: Ranks, op: ReduceOp.RedOpType, dense_dim: int) -> None:
    def program(group: InnetProcessGroup) -> torch.Tensor:
        tensor = sparse(group.rank(), dense_dim)
        group.allreduce([tensor], with_op(dist.AllreduceOptions(), op)).wait()
        return tensor

    expected = torch.stack([sparse(rank, dense_dim).to_dense() for rank in range(SIZE)]).sum(0)
    for tensor in ranks.run(program):
        assert tensor.is_sparse
        assert torch.equal(tensor.to_dense(), expected / (SIZE if op == ReduceOp.AVG else 1))


def test_sparse_sums_keep_their_order_among_other_operations(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> tuple[torch.Tensor, ...]:
        tensors = (torch.ones(5), sparse(group.rank()), torch.ones(7), sparse(group.rank()))
        works = [group.allreduce([tensor]) for tensor in tensors]
        gathered = torch.empty(SIZE)
        works.append(group.all_gather_single(gathered, torch.full((1,), float(group.rank()))))
        for work in reversed(works):
            work.wait()
        return (*tensors, gathered)

    expected = torch.stack([sparse(rank).to_dense() for rank in range(SIZE)]).sum(0)
    for first, second, third, fourth, gathered in ranks.run(program):
        assert (first == SIZE).all()
        assert (third == SIZE).all()
        assert torch.equal(second.to_dense(), expected)
        assert torch.equal(fourth.to_dense(), expected)
        assert torch.equal(gathered, torch.arange(SIZE).float())


def test_different_shapes_raise_an_error_that_shows_both(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> str:
        tensor = torch.eye(3 if group.rank() == 2 else 4).to_sparse()
        with pytest.raises(MismatchError) as caught:
            group.allreduce([tensor]).wait()
        group.barrier().wait()
        return str(caught.value)

    for said in ranks.run(program):
        assert "(3, 3)" in said
        assert "(4, 4)" in said
