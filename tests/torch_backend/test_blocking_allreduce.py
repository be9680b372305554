"""A blocking all_reduce that repeats an earlier one: one call of the node, the same results."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.distributed import AllreduceOptions, ReduceOp

from innet.collectives import repeated
from innet.errors import MismatchError
from innet.torch_backend import process_group
from innet.torch_backend.process_group import InnetProcessGroup
from innet.torch_backend.work import CollectiveWork
from tests.torch_backend.ranks import Ranks, everybody, total, values

pytestmark = pytest.mark.torch

ELEMENTS = 300
REPEATS = 5
"""The first call of a kind is described to the node, the second prepared, the others repeat it."""


def blocking(
    group: InnetProcessGroup, tensor: torch.Tensor, op: Any = ReduceOp.SUM
) -> CollectiveWork:
    """As ``torch.distributed.all_reduce`` calls a group when it waits."""
    options = AllreduceOptions()
    options.reduceOp = op
    options.asyncOp = False
    work = group.allreduce([tensor], options)
    work.wait()
    return work


@pytest.fixture
def repetitions(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each short call repeated an earlier one."""
    seen: list[bool] = []

    def noting(*arguments: Any) -> bool:
        seen.append(repeated.repeat_allreduce(*arguments))
        return seen[-1]

    monkeypatch.setattr(process_group, "repeat_allreduce", noting)
    return seen


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float16], ids=str)
def test_each_call_sums_the_tensors_of_its_own(
    ranks: Ranks, repetitions: list[bool], dtype: torch.dtype
) -> None:
    def program(group: InnetProcessGroup) -> list[torch.Tensor]:
        results = [values(group.rank(), ELEMENTS, dtype=dtype) * step for step in range(REPEATS)]
        for tensor in results:
            blocking(group, tensor)
        return results

    for results in ranks.run(program):
        for step, tensor in enumerate(results):
            assert torch.equal(tensor, total(ELEMENTS, dtype=dtype) * step)
    assert repetitions.count(True) == (REPEATS - 1) * len(ranks.groups)


@pytest.mark.parametrize("op", [ReduceOp.AVG, ReduceOp.MAX], ids=["avg", "max"])
def test_what_each_rank_computes_itself_goes_the_general_way(ranks: Ranks, op: Any) -> None:
    def program(group: InnetProcessGroup) -> list[torch.Tensor]:
        results = [values(group.rank(), ELEMENTS) for _ in range(REPEATS)]
        for tensor in results:
            blocking(group, tensor, op)
        return results

    stack = torch.stack(everybody(ELEMENTS))
    expected = stack.mean(0) if op == ReduceOp.AVG else stack.amax(0)
    for results in ranks.run(program):
        assert all(torch.equal(tensor, expected) for tensor in results)


def test_calls_that_do_not_wait_keep_their_place_among_those_that_do(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> list[torch.Tensor]:
        first, second, third = (values(group.rank(), ELEMENTS) for _ in range(3))
        for _ in range(REPEATS):
            work = group.allreduce([first])
            blocking(group, second)
            work.wait()
            blocking(group, third.view(3, -1).t())  # not contiguous
            first, second, third = (tensor / 4 for tensor in (first, second, third))
        return [first, second, third]

    for results in ranks.run(program):
        for tensor in results:
            assert torch.equal(tensor, total(ELEMENTS) / 4)


def test_a_repeated_calls_work_has_ended(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> bool:
        for _ in range(REPEATS):
            tensor = values(group.rank(), ELEMENTS)
            work = blocking(group, tensor)
        assert work.is_completed()
        assert work.is_success()
        assert work.exception() is None
        assert work.result()[0] is tensor
        return bool(torch.equal(work.get_future().wait()[0], total(ELEMENTS)))

    assert ranks.run(program) == [True] * len(ranks.groups)


def test_a_repeated_call_that_differs_between_ranks_fails_on_all_of_them(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> None:
        for _ in range(REPEATS):
            blocking(group, values(group.rank(), ELEMENTS))
        blocking(group, values(0, ELEMENTS if group.rank() else ELEMENTS - 1))

    assert all(isinstance(error, MismatchError) for error in ranks.run(program))
    tensors = ranks.run(lambda group: blocking(group, torch.ones(3)).result()[0])
    assert all(torch.equal(tensor, torch.full((3,), 4.0)) for tensor in tensors)
