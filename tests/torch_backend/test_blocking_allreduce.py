"""A blocking all_reduce that repeats an earlier one: one call of the node, the same results."""

from __future__ import annotations

from collections.abc import Callable
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
def test_each_call_sums_its_own_tensors(
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


def test_a_mean_uses_the_general_path(ranks: Ranks, repetitions: list[bool]) -> None:
    def program(group: InnetProcessGroup) -> list[torch.Tensor]:
        results = [values(group.rank(), ELEMENTS) for _ in range(REPEATS)]
        for tensor in results:
            blocking(group, tensor, ReduceOp.AVG)
        return results

    for results in ranks.run(program):
        assert all(torch.equal(it, torch.stack(everybody(ELEMENTS)).mean(0)) for it in results)
    assert not repetitions


@pytest.mark.parametrize(
    ("make", "sum_of_all"),
    [
        (lambda ones: torch._neg_view(ones), -4.0),
        (lambda ones: torch.complex(ones, ones).conj().imag, -4.0),
        (lambda ones: ones.to(torch.bfloat16), 4.0),
        (lambda ones: ones.repeat(2)[::2], 4.0),
        (lambda ones: ones[0], 4.0),
        (lambda ones: ones[:0], 4.0),
        (lambda ones: ones.requires_grad_(), 4.0),
    ],
    ids=["negated", "conjugated", "bfloat16", "strided", "0-dim", "empty", "with gradient"],
)
def test_tensors_of_all_layouts_are_summed(
    ranks: Ranks, make: Callable[[torch.Tensor], torch.Tensor], sum_of_all: float
) -> None:
    def program(group: InnetProcessGroup) -> torch.Tensor:
        for _ in range(REPEATS):
            tensor = make(torch.ones(6))
            blocking(group, tensor)
        return tensor

    for tensor in ranks.run(program):
        assert torch.equal(tensor, torch.full_like(tensor, sum_of_all))


def test_calls_that_are_recorded_together_do_not_wait(
    ranks: Ranks, repetitions: list[bool]
) -> None:
    def program(group: InnetProcessGroup) -> torch.Tensor:
        for _ in range(REPEATS):
            tensor = values(group.rank(), ELEMENTS)
            group.launcher.start_batch()
            blocking(group, tensor)
            group.launcher.end_batch().wait()
        return tensor

    assert all(torch.equal(tensor, total(ELEMENTS)) for tensor in ranks.run(program))
    assert not repetitions


def test_asynchronous_calls_keep_their_order_among_blocking_ones(ranks: Ranks) -> None:
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


def test_the_work_of_a_repeated_call_is_complete(ranks: Ranks) -> None:
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
