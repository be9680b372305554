"""PyTorch's profilers see an operation from its start to its end, and cost nothing while off."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.autograd.profiler import profile

from innet.errors import CollectiveError
from innet.torch_backend import operation
from innet.torch_backend.process_group import InnetProcessGroup
from innet.torch_backend.work import ProfilerEvent
from tests.torch_backend.ranks import SIZE, Ranks, values

pytestmark = pytest.mark.torch


def profiled(ranks: Ranks, program: Callable[[InnetProcessGroup], None]) -> list[Any]:
    """The events of rank 0, whose process has the profiler: there is one for a process."""

    def run(group: InnetProcessGroup) -> list[Any]:
        if group.rank() != 0:
            program(group)
            return []
        with profile(record_shapes=True) as profiler:
            program(group)
        return list(profiler.function_events)

    events, *_ = ranks.run(run)
    assert isinstance(events, list), events
    return events


def test_each_operation_is_an_event_with_the_shape_of_its_input(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> None:
        mine, whole = values(group.rank(), 3, 2), torch.empty(SIZE * 3, 2)
        works = [group.allreduce([mine]), group.all_gather_single(whole, mine)]
        for work in works:
            work.wait()
        group.barrier().wait()

    events = [event for event in profiled(ranks, program) if event.name.startswith("innet:")]
    assert [(event.name, event.input_shapes) for event in events] == [
        ("innet:all_reduce", [[3, 2]]),
        ("innet:all_gather_into_tensor", [[3, 2]]),
        ("innet:barrier", []),
    ]
    assert all(event.is_async for event in events)


def test_an_event_lasts_as_long_as_its_operation(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> None:
        if group.rank() != 0:
            group.recv([torch.empty(1)], 0, 5).wait()
            group.allreduce([torch.ones(3)]).wait()
            return
        work = group.allreduce([torch.ones(3)])
        torch.ones(1).digamma()
        for peer in range(1, SIZE):  # they do not come before
            group.send([torch.ones(1)], peer, 5).wait()
        work.wait()
        torch.ones(1).lgamma()

    spans = {event.name: event.time_range for event in profiled(ranks, program)}
    operation, during, after = (
        spans[name] for name in ("innet:all_reduce", "aten::digamma", "aten::lgamma")
    )
    assert operation.start <= during.start
    assert during.end <= operation.end <= after.start


def test_an_event_can_have_the_programs_own_name(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> None:
        with dist.record_comm("layer 3"):
            group.allreduce([torch.ones(3)]).wait()

    assert "layer 3" in [event.name for event in profiled(ranks, program)]


def test_a_failed_call_is_an_event_too(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> None:
        with pytest.raises(CollectiveError):
            group.reduce_scatter_single(torch.ones(3), torch.ones(3))

    names = [event.name for event in profiled(ranks, program)]
    assert "innet:reduce_scatter_tensor" in names


def test_a_failed_call_raises_after_its_event_has_ended(
    ranks: Ranks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The profiler may be turned off next, and its memory freed."""
    ended: list[bool] = []

    class SlowToEnd(ProfilerEvent):
        def _set_end(self) -> None:
            time.sleep(0.2)  # as on a busy machine
            ended.append(True)
            super()._set_end()

    monkeypatch.setattr(operation, "ProfilerEvent", SlowToEnd)

    def program(group: InnetProcessGroup) -> None:
        with pytest.raises(CollectiveError):
            group.reduce_scatter_single(torch.ones(3), torch.ones(3))
        if group.rank() == 0:
            assert ended

    profiled(ranks, program)


def test_nothing_is_recorded_while_no_profiler_is_on(
    ranks: Ranks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation, "ProfilerEvent", None)  # calling it would fail
    for result in ranks.run(lambda group: group.allreduce([torch.ones(3)]).wait()):
        assert result is True
