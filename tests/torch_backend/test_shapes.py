"""Uneven parts, odd strides, nothing at all, several at once: the shapes beside the plain ones."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from innet.torch_backend.process_group import InnetProcessGroup
from tests.torch_backend.ranks import SIZE, Ranks, everybody, total, values, with_op, with_root

pytestmark = pytest.mark.torch

LENGTHS = [3, 0, 5000, 17]  # of what belongs to each rank


def test_allgather_of_tensors_of_different_sizes(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> list[torch.Tensor]:
        outputs = [torch.empty(length) for length in LENGTHS]
        group.allgather([outputs], [values(group.rank(), LENGTHS[group.rank()])]).wait()
        return outputs

    for outputs in ranks.run(program):
        for rank, output in enumerate(outputs):
            assert torch.equal(output, values(rank, LENGTHS[rank]))


@pytest.mark.parametrize("op", [ReduceOp.SUM, ReduceOp.AVG], ids=["sum", "avg"])
def test_reduce_scatter_of_tensors_of_different_sizes(ranks: Ranks, op: ReduceOp.RedOpType) -> None:
    def program(group: InnetProcessGroup) -> torch.Tensor:
        whole = values(group.rank(), sum(LENGTHS))
        output = torch.empty(LENGTHS[group.rank()])
        options = with_op(dist.ReduceScatterOptions(), op)
        group.reduce_scatter([output], [list(whole.split(LENGTHS))], options).wait()
        return output

    share = SIZE if op == ReduceOp.AVG else 1
    expected = (total(sum(LENGTHS)) / share).split(LENGTHS)
    for rank, output in enumerate(ranks.run(program)):
        assert torch.equal(output, expected[rank])


def test_an_uneven_reduce_scatter_fills_an_output_of_another_shape_and_odd_strides(
    ranks: Ranks,
) -> None:
    lengths = [6, 0, 4, 2]

    def program(group: InnetProcessGroup) -> torch.Tensor:
        whole = values(group.rank(), sum(lengths))
        output = torch.empty(2, lengths[group.rank()] // 2).t()
        group.reduce_scatter([output], [list(whole.split(lengths))]).wait()
        return output

    expected = total(sum(lengths)).split(lengths)
    for rank, output in enumerate(ranks.run(program)):
        assert torch.equal(output.reshape(-1), expected[rank])


def part(source: int, destination: int) -> torch.Tensor:
    """What one rank sends another: of a size that no third one can know."""
    return torch.arange((3 * source + destination) % 5).float() + 100 * source + destination


def test_alltoall_of_tensors_of_different_sizes(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> tuple[list[torch.Tensor], torch.Tensor]:
        me = group.rank()
        outgoing = [part(me, peer) for peer in range(SIZE)]
        incoming = [torch.empty_like(part(peer, me)) for peer in range(SIZE)]
        group.alltoall(incoming, outgoing).wait()
        sizes = [tensor.numel() for tensor in incoming]
        single = torch.empty(sum(sizes))
        splits = [tensor.numel() for tensor in outgoing]
        group.all_to_all_single(single, torch.cat(outgoing), sizes, splits).wait()
        return incoming, single

    for me, (incoming, single) in enumerate(ranks.run(program)):
        expected = [part(peer, me) for peer in range(SIZE)]
        assert all(map(torch.equal, incoming, expected))
        assert torch.equal(single, torch.cat(expected))


def test_splits_count_rows(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> torch.Tensor:
        rows = torch.full((SIZE + 1, 6), float(group.rank()))
        output = torch.empty(2 * SIZE if group.rank() == 0 else SIZE, 6)
        outgoing = [2, *[1] * (SIZE - 1)]
        incoming = [2 if group.rank() == 0 else 1] * SIZE
        group.all_to_all_single(output, rows, incoming, outgoing).wait()
        return output

    for rank, output in enumerate(ranks.run(program)):
        times = 2 if rank == 0 else 1
        assert torch.equal(output[:, 0], torch.arange(SIZE).repeat_interleave(times).float())


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements, laid out by columns."""
    return tensor.t().contiguous().t()


def test_tensors_that_are_not_contiguous_are_read_and_written_where_they_are(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> dict[str, torch.Tensor]:
        mine = transposed(values(group.rank(), SIZE * 2, 5))
        done = {
            "gathered": transposed(torch.empty(SIZE * SIZE * 2, 5)),
            "scattered": transposed(torch.empty(2, 5)),
            "exchanged": transposed(torch.empty(SIZE * 2, 5)),
            "broadcast": mine.clone(memory_format=torch.preserve_format),
            "reduced": mine.clone(memory_format=torch.preserve_format),
            "received": transposed(torch.empty(SIZE * 2, 5)),
        }
        assert not any(tensor.is_contiguous() for tensor in done.values())
        group.all_gather_single(done["gathered"], mine).wait()
        group.reduce_scatter_single(done["scattered"], mine).wait()
        group.all_to_all_single(done["exchanged"], mine, [], []).wait()
        group.broadcast([done["broadcast"]], with_root(dist.BroadcastOptions(), 1)).wait()
        group.reduce([done["reduced"]], with_root(dist.ReduceOptions(), 2)).wait()
        sent = group.send([mine], (group.rank() + 1) % SIZE, 0)
        group.recv([done["received"]], (group.rank() - 1) % SIZE, 0).wait()
        sent.wait()
        return done

    inputs = everybody(SIZE * 2, 5)
    for rank, done in enumerate(ranks.run(program)):
        assert torch.equal(done["gathered"], torch.cat(inputs))
        assert torch.equal(done["scattered"], total(SIZE * 2, 5)[2 * rank : 2 * rank + 2])
        expected = torch.cat([tensor[2 * rank : 2 * rank + 2] for tensor in inputs])
        assert torch.equal(done["exchanged"], expected)
        assert torch.equal(done["broadcast"], inputs[1])
        assert torch.equal(done["reduced"], total(SIZE * 2, 5) if rank == 2 else inputs[rank])
        assert torch.equal(done["received"], inputs[(rank - 1) % SIZE])


def test_conjugated_views_are_resolved(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> tuple[torch.Tensor, torch.Tensor]:
        mine = torch.complex(values(group.rank(), 6), values(group.rank() + 9, 6)).conj()
        received = torch.zeros(6, dtype=torch.complex64).conj()
        tensor = mine if group.rank() == 0 else received
        group.broadcast([tensor]).wait()
        return tensor, torch.complex(values(0, 6), -values(9, 6))

    for tensor, expected in ranks.run(program):
        assert torch.equal(tensor, expected)


def test_every_operation_accepts_zero_elements(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> list[tuple[int, ...]]:
        none = torch.empty(0, 3)
        works = [
            group.allreduce([none]),
            group.allreduce_coalesced([none, none]),
            group.broadcast([none]),
            group.reduce([none]),
            group.allgather([[torch.empty(0, 3) for _ in range(SIZE)]], [none]),
            group.all_gather_single(torch.empty(0, 3), none),
            group.reduce_scatter([torch.empty(0, 3)], [[none] * SIZE]),
            group.reduce_scatter_single(torch.empty(0, 3), none),
            group.alltoall([torch.empty(0, 3) for _ in range(SIZE)], [none] * SIZE),
            group.all_to_all_single(torch.empty(0, 3), none, [], []),
            group.all_to_all_single(torch.empty(0, 3), none, [0] * SIZE, [0] * SIZE),
            group.gather([[none] * SIZE] if group.rank() == 0 else [], [none]),
            group.scatter([none], [[none] * SIZE] if group.rank() == 0 else []),
            group.send([none], (group.rank() + 1) % SIZE, 3),
            group.recv([none], (group.rank() - 1) % SIZE, 3),
        ]
        for work in works:
            work.wait()
        return [tuple(tensor.shape) for tensor in works[0].result()]

    assert ranks.run(program) == [[(0, 3)]] * SIZE


def test_coalesced_forms_run_each_operation_in_order(ranks: Ranks) -> None:
    def program(group: InnetProcessGroup) -> tuple[list[torch.Tensor], ...]:
        me = group.rank()
        reduced = [values(me, 10), values(me, 3, 4, dtype=torch.int64)]
        single = [torch.empty(SIZE * 5), torch.empty(SIZE, dtype=torch.float64)]
        scattered = [torch.empty(2), torch.empty(7)]
        listed = [[torch.empty(5), torch.empty(2, 2)] for _ in range(SIZE)]
        works = [
            group.allreduce_coalesced(reduced),
            group.all_gather_single_coalesced(
                single, [values(me, 5), values(me, 1, dtype=torch.float64)]
            ),
            group.reduce_scatter_single_coalesced(
                scattered, [values(me, 2 * SIZE), values(me, 7 * SIZE)]
            ),
            group.allgather_coalesced(listed, [values(me, 5), values(me, 2, 2)]),
        ]
        for work in works:
            work.wait()
        return reduced, single, scattered, [tensor for pair in listed for tensor in pair]

    for rank, (reduced, single, scattered, listed) in enumerate(ranks.run(program)):
        assert torch.equal(reduced[0], total(10))
        assert torch.equal(reduced[1], total(3, 4, dtype=torch.int64))
        assert torch.equal(single[0], torch.cat(everybody(5)))
        assert torch.equal(single[1], torch.cat(everybody(1, dtype=torch.float64)))
        assert torch.equal(scattered[0], total(2 * SIZE)[2 * rank : 2 * rank + 2])
        assert torch.equal(scattered[1], total(7 * SIZE)[7 * rank : 7 * rank + 7])
        for peer in range(SIZE):
            assert torch.equal(listed[2 * peer], values(peer, 5))
            assert torch.equal(listed[2 * peer + 1], values(peer, 2, 2))
