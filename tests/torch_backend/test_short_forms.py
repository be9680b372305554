"""A group's methods take what PyTorch's own take: lists and options, or a tensor and a number."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import torch
from torch.distributed import ReduceOp

from innet.errors import CollectiveError
from innet.torch_backend.process_group import InnetProcessGroup
from tests.torch_backend.ranks import SIZE, Ranks, everybody, total, values

pytestmark = pytest.mark.torch

ROOT = 2
SHAPE = (3, 2)


def outputs() -> list[torch.Tensor]:
    return [torch.empty(SHAPE) for _ in range(SIZE)]


def parts(rank: int) -> list[torch.Tensor]:
    return list(values(rank, SIZE, *SHAPE))


@pytest.mark.parametrize(
    "start",
    [
        lambda g, tensor: g.allreduce(tensor),
        lambda g, tensor: g.allreduce([tensor], ReduceOp.SUM),
        lambda g, tensor: g.allreduce(tensors=[tensor], op=ReduceOp.SUM),
        lambda g, tensor: g.allreduce(tensor, op=ReduceOp.SUM),
    ],
    ids=["tensor", "list and operator", "by name", "tensor and operator"],
)
def test_allreduce(ranks: Ranks, start: Callable[[InnetProcessGroup, torch.Tensor], Any]) -> None:
    def program(group: InnetProcessGroup) -> torch.Tensor:
        tensor = values(group.rank(), *SHAPE)
        start(group, tensor).wait()
        return tensor

    for tensor in ranks.run(program):
        assert torch.equal(tensor, total(*SHAPE))


def test_short_forms_with_a_root(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> tuple[torch.Tensor, ...]:
        me, mine = group.rank(), values(group.rank(), *SHAPE)
        reduced, broadcast, scattered, gathered = (
            mine.clone(),
            mine.clone(),
            mine.clone(),
            outputs(),
        )
        group.reduce(reduced, ROOT, ReduceOp.MAX).wait()
        group.broadcast(broadcast, root=ROOT).wait()
        group.scatter(scattered, parts(me) if me == ROOT else [], ROOT).wait()
        group.gather(gathered if me == ROOT else [], mine, ROOT).wait()
        return reduced, broadcast, scattered, torch.stack(gathered)

    results = ranks.run(program)
    assert torch.equal(results[ROOT][0], torch.stack(everybody(*SHAPE)).amax(0))
    assert torch.equal(results[ROOT][3], torch.stack(everybody(*SHAPE)))
    for rank, (_, broadcast, scattered, _) in enumerate(results):
        assert torch.equal(broadcast, values(ROOT, *SHAPE))
        assert torch.equal(scattered, parts(ROOT)[rank])


def test_short_forms_with_lists(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> tuple[torch.Tensor, torch.Tensor]:
        gathered, share = outputs(), torch.empty(SHAPE)
        group.allgather(gathered, values(group.rank(), *SHAPE)).wait()
        group.reduce_scatter(share, parts(group.rank()), ReduceOp.SUM).wait()
        group.barrier(timedelta(seconds=30)).wait()
        return torch.stack(gathered), share

    for rank, (gathered, share) in enumerate(ranks.run(program)):
        assert torch.equal(gathered, torch.stack(everybody(*SHAPE)))
        assert torch.equal(share, total(SIZE, *SHAPE)[rank])


def test_a_timeout_of_one_operation_is_refused_with_advice(ranks: Ranks) -> None:
    with pytest.raises(CollectiveError, match=r"group\.set_timeout\(\)"):
        ranks.groups[0].broadcast(torch.ones(3), 0, timedelta(seconds=5))
