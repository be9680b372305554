"""Errors reach the caller, whichever way PyTorch takes, and say what every rank needs to know."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from innet._native import _core
from innet.errors import DeadlineExceeded, MismatchError
from innet.torch_backend.process_group import InnetProcessGroup
from tests.torch_backend.ranks import SIZE, Program, Ranks, opened_ranks, with_op

pytestmark = pytest.mark.torch


def allreduce(group: InnetProcessGroup, tensor: torch.Tensor, op: object = ReduceOp.SUM) -> None:
    group.allreduce([tensor], with_op(dist.AllreduceOptions(), op)).wait()


@pytest.mark.parametrize(
    ("usual", "odd", "shown"),
    [
        (
            lambda g: allreduce(g, torch.ones(100)),
            lambda g: allreduce(g, torch.ones(90)),
            ("100 elements", "90 elements"),
        ),
        (
            lambda g: allreduce(g, torch.ones(8)),
            lambda g: allreduce(g, torch.ones(8, dtype=torch.int64)),
            ("f32", "i64"),
        ),
        (
            lambda g: allreduce(g, torch.ones(8)),
            lambda g: allreduce(g, torch.ones(8), ReduceOp.MAX),
            ("sum", "max"),
        ),
        (
            lambda g: allreduce(g, torch.ones(8)),
            lambda g: g.all_gather_single(torch.empty(8 * SIZE), torch.ones(8)).wait(),
            ("allreduce", "allgather"),
        ),
    ],
    ids=["shapes", "types", "operators", "operations"],
)
def test_a_mismatch_error_shows_both_calls(
    ranks: Ranks, usual: Program, odd: Program, shown: tuple[str, str]
) -> None:
    def program(group: InnetProcessGroup) -> str:
        with pytest.raises(MismatchError) as caught:
            (odd if group.rank() == 2 else usual)(group)
        group.barrier().wait()
        return str(caught.value)

    for rank, said in enumerate(ranks.run(program)):
        for side in shown:
            assert side in said, f"rank {rank}: {said}"


def test_a_timeout_names_the_operation_and_the_absent_ranks() -> None:
    def program(group: InnetProcessGroup) -> str:
        if group.rank() == 1:
            return ""
        with pytest.raises(DeadlineExceeded) as caught:
            group.allreduce([torch.ones(7, 3)]).wait()
        return str(caught.value)

    with opened_ranks(timeout_s=1.5) as ranks:
        said = ranks.run(program)
    for rank in (0, 2, 3):
        assert "allreduce(sum.f32, shape (7, 3)) seq=0" in said[rank]
        assert "1" in said[rank].partition("seq=0")[2]


def test_sizes_beyond_32_bits_are_counted_correctly() -> None:
    segment_bytes, block_bytes = 8192, 6 << 30
    whole = _core.Segmentation(1, block_bytes, segment_bytes)
    assert whole.segments == block_bytes // segment_bytes
    blocks = _core.Segmentation(8, block_bytes + 1, segment_bytes)
    assert blocks.segments_per_block == block_bytes // segment_bytes + 1
    assert blocks.segments == 8 * blocks.segments_per_block


def test_an_operation_on_more_than_2_to_the_32_elements_is_described_correctly() -> None:
    def program(group: InnetProcessGroup) -> str:
        # Memory that nobody touches: the message is never asked for.
        huge = torch.empty((1 << 31) + 5, dtype=torch.uint8)
        if group.rank() != 0:
            return ""
        work = group.recv([huge], 1, 40)
        work.cancel()
        with pytest.raises(RuntimeError) as caught:
            work.wait()
        return str(caught.value)

    with opened_ranks(2) as ranks:
        said = ranks.run(program)[0]
    assert "cancelled" in said.lower()
