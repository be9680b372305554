"""Modes of PyTorch's dispatcher see the operations of innet's groups, as they see Gloo's."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch.distributed.tensor.debug import CommDebugMode
from torch.utils._python_dispatch import TorchDispatchMode

from innet.torch_backend.process_group import InnetProcessGroup
from tests.torch_backend.ranks import Ranks

pytestmark = pytest.mark.torch


def _call_each_collective(group: InnetProcessGroup) -> torch.Tensor:
    size = group.size()
    total, row, rows = torch.ones(2), torch.ones(2), torch.ones(2 * size)
    parts = [torch.empty(2) for _ in range(size)]
    at_root = group.rank() == 0
    works = [
        group.allreduce([total]),
        group.allreduce_coalesced([torch.ones(2)]),
        group.broadcast([torch.ones(2)]),
        group.reduce([torch.ones(2)]),
        group.allgather([parts], [row]),
        group.all_gather_single(torch.empty(2 * size), row),
        group.gather([parts] if at_root else [], [row]),
        group.scatter([torch.empty(2)], [[row] * size] if at_root else []),
        group.reduce_scatter([torch.empty(2)], [[row] * size]),
        group.reduce_scatter_single(torch.empty(2), rows),
        group.alltoall([torch.empty(2) for _ in range(size)], [row] * size),
        group.all_to_all_single(torch.empty(2 * size), rows, [], []),
    ]
    for work in works:
        work.wait()
    return total


OPERATORS = (
    *("allreduce_", "allreduce_coalesced_", "broadcast_", "reduce_", "allgather_", "gather_"),
    *("_allgather_base_", "scatter_", "reduce_scatter_", "_reduce_scatter_base_", "alltoall_"),
    "alltoall_base_",
)


def test_the_debug_mode_of_communication_counts_each_collective(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> tuple[torch.Tensor, dict[Any, int]]:
        with CommDebugMode() as mode:
            total = _call_each_collective(group)
        return total, dict(mode.get_comm_counts())

    for total, counts in ranks.run(program):
        assert total[0] == len(ranks.run(lambda group: None))
        assert counts == {getattr(torch.ops.c10d, name): 1 for name in OPERATORS}


class _Seen(TorchDispatchMode):
    """Counts operators by name, and calls them."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names[str(func)] += 1
        return func(*args, **(kwargs or {}))


def test_nested_modes_and_barriers_and_messages_are_seen(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> list[Counter[str]]:
        with _Seen() as outer, _Seen() as inner:
            group.barrier().wait()
            peer = group.rank() ^ 1
            if peer < group.size():
                sent = group.send([torch.ones(1)], peer, 0)
                group.recv([torch.empty(1)], peer, 0).wait()
                sent.wait()
        return [outer.names, inner.names]

    for seen in ranks.run(program):
        for names in seen:
            assert names["c10d.barrier.default"] == 1
            assert names["c10d.send.default"] == names["c10d.recv_.default"]
