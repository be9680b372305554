"""A call that fails on one rank is an error on every rank that needs it, and the next is right."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from innet.errors import MismatchError
from innet.torch_backend.process_group import InnetProcessGroup
from tests.torch_backend.ranks import SIZE, Ranks, opened_ranks, with_op, with_root

pytestmark = pytest.mark.torch

FAILED = 2
UNSUPPORTED = torch.quantize_per_tensor(torch.ones(8), 0.1, 0, torch.quint8)
META = torch.empty(8, device="meta")

Call = Callable[[InnetProcessGroup], torch.Tensor]


@pytest.fixture(scope="module", params=["inc", "ring"])
def ranks(request: pytest.FixtureRequest) -> Iterator[Ranks]:
    with opened_ranks(plan=request.param) as made:
        yield made


class Interrupting:
    """A list of tensors during whose reading Ctrl-C comes."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        raise KeyboardInterrupt

    def __len__(self) -> int:
        return 1

    def __getitem__(self, place: int) -> torch.Tensor:
        raise KeyboardInterrupt


@dataclass(frozen=True)
class Collective:
    """One to try.

    Attributes:
        call: as it should be called; gives the result.
        expected: what each rank gets of it.
        failing: ways to call it that fail on one rank.
        needs: whether ``rank`` needs what the failed one contributes.
    """

    call: Call
    expected: Callable[[int], torch.Tensor]
    failing: Sequence[Callable[[InnetProcessGroup], object]]
    needs: Callable[[int], bool] = lambda rank: True


def mine(group: InnetProcessGroup, elements: int = 8) -> torch.Tensor:
    return torch.full((elements,), float(group.rank() + 1))


ALL = torch.arange(1.0, SIZE + 1)
TOTAL = torch.full((8,), float(ALL.sum()))


def allreduce(group: InnetProcessGroup) -> torch.Tensor:
    tensor = mine(group)
    group.allreduce([tensor]).wait()
    return tensor


def coalesced(group: InnetProcessGroup, parts: int = 2) -> torch.Tensor:
    tensors = [mine(group) for _ in range(parts)]
    group.allreduce_coalesced(tensors).wait()
    return torch.stack(tensors)


def sparse(group: InnetProcessGroup) -> torch.Tensor:
    tensor = torch.diag(mine(group)).to_sparse()
    group.allreduce([tensor]).wait()
    return tensor.to_dense()


def gathered(group: InnetProcessGroup) -> torch.Tensor:
    outputs = [torch.empty(8) for _ in range(SIZE)]
    group.allgather([outputs], [mine(group)]).wait()
    return torch.cat(outputs)


def gathered_unevenly(group: InnetProcessGroup) -> torch.Tensor:
    outputs = [torch.empty(rank + 1) for rank in range(SIZE)]
    group.allgather([outputs], [mine(group, group.rank() + 1)]).wait()
    return torch.cat(outputs)


def gathered_coalesced(group: InnetProcessGroup) -> torch.Tensor:
    outputs = [torch.empty(8 * SIZE) for _ in range(2)]
    group.all_gather_single_coalesced(outputs, [mine(group)] * 2).wait()
    return torch.stack(outputs)


def scattered_unevenly(group: InnetProcessGroup) -> torch.Tensor:
    output = torch.empty(group.rank() + 1)
    inputs = [mine(group, rank + 1) for rank in range(SIZE)]
    group.reduce_scatter([output], [inputs]).wait()
    return output


def scattered_coalesced(group: InnetProcessGroup, outputs: int = 2) -> torch.Tensor:
    made = [torch.empty(2) for _ in range(outputs)]
    group.reduce_scatter_single_coalesced(made, [mine(group), mine(group)]).wait()
    return torch.stack(made)


def broadcast(group: InnetProcessGroup) -> torch.Tensor:
    tensor = mine(group)
    group.broadcast([tensor], with_root(dist.BroadcastOptions(), FAILED)).wait()
    return tensor


def exchanged(group: InnetProcessGroup) -> torch.Tensor:
    outputs = [torch.empty(8) for _ in range(SIZE)]
    group.alltoall(outputs, [mine(group)] * SIZE).wait()
    return torch.cat(outputs)


def exchanged_by_sizes(group: InnetProcessGroup) -> torch.Tensor:
    output = torch.empty(8)
    group.all_to_all_single(output, mine(group), [2] * SIZE, [2] * SIZE).wait()
    return output


EVERYBODYS = ALL.repeat_interleave(8)
COLLECTIVES = {
    "allreduce": Collective(
        allreduce,
        lambda rank: TOTAL,
        [
            lambda group: group.allreduce([UNSUPPORTED]),
            lambda group: group.allreduce([META]),
            lambda group: group.allreduce([torch.ones(8), torch.ones(8)]),
            lambda group: group.allreduce(
                [mine(group)], with_op(dist.AllreduceOptions(), ReduceOp.BAND)
            ),
            lambda group: group.allreduce(
                [torch.ones(8, dtype=torch.int32)], with_op(dist.AllreduceOptions(), ReduceOp.AVG)
            ),
            lambda group: group.allreduce(Interrupting()),
            # How others call it cannot be told from the arguments of these.
            lambda group: group.allreduce([torch.eye(3).to_sparse_csr()]),
            lambda group: group.allreduce_coalesced([mine(group), UNSUPPORTED]),
        ],
    ),
    "allreduce_coalesced": Collective(
        coalesced,
        lambda rank: TOTAL.expand(2, 8),
        [
            lambda group: group.allreduce_coalesced([UNSUPPORTED] * 2),
            lambda group: group.allreduce_coalesced([mine(group), UNSUPPORTED, META]),
            lambda group: group.allreduce_coalesced([UNSUPPORTED]),
            lambda group: group.allreduce_coalesced(Interrupting()),
        ],
    ),
    "sparse": Collective(
        sparse,
        lambda rank: torch.diag(TOTAL),
        [
            lambda group: group.allreduce([torch.eye(3).to_sparse_csr()]),
            lambda group: group.allreduce(
                [torch.eye(3).to_sparse()], with_op(dist.AllreduceOptions(), ReduceOp.MAX)
            ),
            lambda group: group.allreduce([UNSUPPORTED]),
        ],
    ),
    "allgather": Collective(
        gathered,
        lambda rank: EVERYBODYS,
        [
            lambda group: group.allgather([[torch.empty(8)] * 3], [mine(group)]),
            lambda group: group.allgather([[torch.empty(9)] * SIZE], [mine(group)]),
            lambda group: group.allgather(
                [[torch.empty(8, dtype=torch.int32)] * SIZE], [mine(group)]
            ),
        ],
    ),
    "allgather of uneven tensors": Collective(
        gathered_unevenly,
        lambda rank: torch.cat([torch.full((peer + 1,), peer + 1.0) for peer in range(SIZE)]),
        [
            lambda group: group.allgather([[torch.empty(3)] * 2], [mine(group, 3)]),
            lambda group: group.allgather([[torch.empty(n) for n in (1, 2, 3, 4)]], [UNSUPPORTED]),
        ],
    ),
    "all_gather_single_coalesced": Collective(
        gathered_coalesced,
        lambda rank: EVERYBODYS.expand(2, -1),
        [
            lambda group: group.all_gather_single_coalesced(
                [torch.empty(8 * SIZE)] * 3, [mine(group)] * 2
            ),
            lambda group: group.all_gather_single_coalesced([torch.empty(3)], [mine(group)]),
        ],
    ),
    "reduce_scatter of uneven tensors": Collective(
        scattered_unevenly,
        lambda rank: torch.full((rank + 1,), float(ALL.sum())),
        [lambda group: group.reduce_scatter([torch.empty(3)], [[mine(group, 3)] * 2])],
    ),
    "reduce_scatter_single_coalesced": Collective(
        scattered_coalesced,
        lambda rank: torch.full((2, 2), float(ALL.sum())),
        [functools.partial(scattered_coalesced, outputs=n) for n in (1, 3)],
    ),
    "broadcast": Collective(
        broadcast,
        lambda rank: torch.full((8,), FAILED + 1.0),
        [lambda group: group.broadcast([UNSUPPORTED], with_root(dist.BroadcastOptions(), FAILED))],
    ),
    "broadcast to the rank that fails": Collective(
        lambda group: _broadcast_from(group, 0),
        lambda rank: torch.full((8,), 1.0),
        [lambda group: group.broadcast([UNSUPPORTED], with_root(dist.BroadcastOptions(), 0))],
        lambda rank: False,
    ),
    "alltoall": Collective(
        exchanged,
        lambda rank: EVERYBODYS,
        [
            lambda group: group.alltoall([torch.empty(8)] * 2, [mine(group)] * SIZE),
            lambda group: group.alltoall([torch.empty(8)] * SIZE, [UNSUPPORTED] * SIZE),
        ],
    ),
    "all_to_all_single by sizes": Collective(
        exchanged_by_sizes,
        lambda rank: ALL.repeat_interleave(2),
        [lambda group: group.all_to_all_single(torch.empty(8), mine(group), [2] * 4, [9] * 4)],
    ),
}


def _broadcast_from(group: InnetProcessGroup, root: int) -> torch.Tensor:
    tensor = mine(group)
    group.broadcast([tensor], with_root(dist.BroadcastOptions(), root)).wait()
    return tensor


def send(tensor: torch.Tensor, group: InnetProcessGroup) -> None:
    group.send([tensor], 1, 5).wait()


def receive(tensor: torch.Tensor, group: InnetProcessGroup) -> torch.Tensor:
    group.recv([tensor], 0, 5).wait()
    return tensor


def outcome(call: Callable[[InnetProcessGroup], object], group: InnetProcessGroup) -> object:
    try:
        return call(group)
    except (Exception, KeyboardInterrupt) as error:
        return error


@pytest.mark.parametrize(
    ("name", "way"),
    [(name, way) for name, tried in COLLECTIVES.items() for way in range(len(tried.failing))],
)
def test_a_call_that_fails_on_one_rank_misleads_no_rank(ranks: Ranks, name: str, way: int) -> None:
    collective = COLLECTIVES[name]

    def program(group: InnetProcessGroup) -> tuple[object, ...]:
        fails = group.rank() == FAILED
        return (
            outcome(collective.failing[way] if fails else collective.call, group),
            outcome(allreduce, group),
            outcome(collective.call, group),
        )

    for rank, (first, second, third) in enumerate(ranks.run(program)):
        if rank == FAILED:
            assert isinstance(first, (Exception, KeyboardInterrupt)), first
        elif collective.needs(rank):
            assert isinstance(first, RuntimeError), f"rank {rank}: {first!r}"
            assert f"rank {FAILED} (h{FAILED}): " in str(first), first
        else:
            assert torch.equal(first, collective.expected(rank)), f"rank {rank}: {first!r}"
        assert isinstance(second, torch.Tensor), f"rank {rank}: {second!r}"
        assert torch.equal(second, TOTAL), f"rank {rank}: {second!r}"
        assert isinstance(third, torch.Tensor), f"rank {rank}: {third!r}"
        assert torch.equal(third, collective.expected(rank)), f"rank {rank}: {third!r}"


@pytest.mark.parametrize("theirs", [0, 1, 3])
def test_lists_of_different_lengths_are_a_mismatch_on_every_rank(ranks: Ranks, theirs: int) -> None:
    def program(group: InnetProcessGroup) -> tuple[object, object]:
        parts = theirs if group.rank() == FAILED else 2
        return outcome(functools.partial(coalesced, parts=parts), group), outcome(allreduce, group)

    for first, second in ranks.run(program):
        assert isinstance(first, MismatchError), first
        assert isinstance(second, torch.Tensor), second
        assert torch.equal(second, TOTAL)


def test_a_failed_message_fails_only_its_receiver(ranks: Ranks) -> None:
    """The messages after it keep their places, also after a receive that failed."""

    def program(group: InnetProcessGroup) -> list[object]:
        if group.rank() == 0:
            sent = [UNSUPPORTED, *(torch.full((8,), float(n)) for n in range(3))]
            return [outcome(functools.partial(send, t), group) for t in sent]
        if group.rank() == 1:
            into = [torch.empty(8), torch.empty(8), UNSUPPORTED.clone(), torch.empty(8)]
            return [outcome(functools.partial(receive, t), group) for t in into]
        return []

    sent, received, *_ = ranks.run(program)
    assert isinstance(sent[0], RuntimeError)
    assert isinstance(received[0], RuntimeError)
    assert "rank 0 (h0): send(to=1, tag=5) failed" in str(received[0])
    assert isinstance(received[2], RuntimeError)
    assert [tensor[0].item() for tensor in (received[1], received[3])] == [0.0, 2.0]


def test_a_barrier_counts_failed_broadcasts(ranks: Ranks) -> None:
    """After so many in a row that all ranks start a barrier for which nobody waits."""

    def program(group: InnetProcessGroup) -> list[object]:
        failing = COLLECTIVES["broadcast"].failing[0] if group.rank() == FAILED else broadcast
        failed = [outcome(failing, group) for _ in range(20)]
        return [*failed, *(outcome(broadcast, group) for _ in range(40)), allreduce(group)]

    for results in ranks.run(program):
        assert all(isinstance(result, RuntimeError) for result in results[:20])
        assert all(torch.equal(right, torch.full((8,), FAILED + 1.0)) for right in results[20:-1])
        assert torch.equal(results[-1], TOTAL)
