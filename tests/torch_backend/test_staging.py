"""Tensors of a device: staged through the host, in order, without blocking the caller."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist

from innet.topology import load_topology
from innet.torch_backend import staging
from innet.torch_backend.process_group import InnetProcessGroup
from innet.torch_backend.work import Copy
from tests.collectives.cluster import Cluster
from tests.torch_backend.ranks import SIZE, Ranks, everybody, total, values, with_root

pytestmark = pytest.mark.torch


class FakeDevice:
    """A device whose tensors are tensors that it was told about, and whose copies take a thread.

    Attributes:
        gate: copies to the host wait for it.
        fetched: tensors whose copy to the host was asked for, in order.
        awaited: tensors to which results go, behind the work that the device had then.
        preceded: how often somebody's stream was made to wait for a copy.
    """

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.fetched: list[torch.Tensor] = []
        self.awaited: list[torch.Tensor] = []
        self.preceded = 0
        # Kept alive: freed memory would become some host tensor's, and still count as the device's.
        self._memory: dict[int, torch.Tensor] = {}
        self._copier = ThreadPoolExecutor(1)

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        self._memory[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    def holds(self, tensor: torch.Tensor) -> bool:
        return tensor.untyped_storage().data_ptr() in self._memory

    def host_like(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.full(tensor.shape, 99, dtype=tensor.dtype)

    def fetch(self, host: torch.Tensor, tensor: torch.Tensor) -> Copy:
        assert self.holds(tensor)
        assert not self.holds(host)
        self.fetched.append(tensor)
        return self._copy(host, tensor)

    def storing(self, tensor: torch.Tensor) -> Callable[[torch.Tensor], Copy]:
        assert self.holds(tensor)
        self.awaited.append(tensor)

        def store(host: torch.Tensor) -> Copy:
            assert not self.holds(host)
            return self._copy(tensor, host)

        return store

    def _copy(self, to: torch.Tensor, source: torch.Tensor) -> Copy:
        def copy() -> None:
            self.gate.wait(60)
            to.copy_(source)

        done = self._copier.submit(copy)

        def precede() -> None:
            self.preceded += 1
            done.result()  # what a stream would wait for, a processor has to

        return Copy(done.result, precede)


@pytest.fixture(scope="module")
def staged() -> Iterator[tuple[Ranks, list[FakeDevice]]]:
    devices = [FakeDevice() for _ in range(SIZE)]
    with Cluster(load_topology(f"star:{SIZE}")) as cluster:
        ranks = Ranks(cluster)
        ranks.groups = [
            InnetProcessGroup(member, device=device)
            for member, device in zip(cluster.communicators, devices, strict=True)
        ]
        yield ranks, devices
        ranks.close()


Staged = tuple[Ranks, list[FakeDevice]]


def test_every_operation_takes_tensors_of_the_device(staged: Staged) -> None:
    ranks, devices = staged

    def program(group: InnetProcessGroup) -> dict[str, torch.Tensor]:
        me = group.rank()
        put = devices[me].put
        mine = values(me, SIZE * 2, 3)
        done = {
            "reduced": put(mine.clone()),
            "rooted": put(mine.clone()),
            "broadcast": put(mine.clone()),
            "gathered": put(torch.empty(SIZE * SIZE * 2, 3)),
            "scattered": put(torch.empty(2, 3)),
            "exchanged": put(torch.empty(SIZE * 2, 3)),
            "uneven": put(torch.empty(SIZE * 2, 3)),
            "received": put(torch.empty(SIZE * 2, 3)),
        }
        listed = [put(torch.empty(SIZE * 2, 3)) for _ in range(SIZE)]
        source = put(mine.clone())
        works = [
            group.allreduce([done["reduced"]]),
            group.reduce([done["rooted"]], with_root(dist.ReduceOptions(), 1)),
            group.broadcast([done["broadcast"]], with_root(dist.BroadcastOptions(), 2)),
            group.all_gather_single(done["gathered"], source),
            group.allgather([listed], [source]),
            group.reduce_scatter_single(done["scattered"], source),
            group.all_to_all_single(done["exchanged"], source, [], []),
            group.all_to_all_single(done["uneven"], source, [2] * SIZE, [2] * SIZE),
            group.send([source], (me + 1) % SIZE, 0),
            group.recv([done["received"]], (me - 1) % SIZE, 0),
        ]
        for work in works:
            work.wait()
        return done | {"listed": torch.cat(listed)}

    inputs = everybody(SIZE * 2, 3)
    for rank, done in enumerate(ranks.run(program)):
        assert torch.equal(done["reduced"], total(SIZE * 2, 3))
        assert torch.equal(done["rooted"], total(SIZE * 2, 3) if rank == 1 else inputs[rank])
        assert torch.equal(done["broadcast"], inputs[2])
        assert torch.equal(done["gathered"], torch.cat(inputs))
        assert torch.equal(done["listed"], torch.cat(inputs))
        assert torch.equal(done["scattered"], total(SIZE * 2, 3)[2 * rank : 2 * rank + 2])
        expected = torch.cat([tensor[2 * rank : 2 * rank + 2] for tensor in inputs])
        assert torch.equal(done["exchanged"], expected)
        assert torch.equal(done["uneven"], expected)
        assert torch.equal(done["received"], inputs[(rank - 1) % SIZE])


def test_the_call_returns_before_the_copy_and_later_operations_keep_their_order(
    staged: Staged,
) -> None:
    ranks, devices = staged

    def program(group: InnetProcessGroup) -> tuple[torch.Tensor, torch.Tensor, bool]:
        device = devices[group.rank()]
        # On this rank alone the copy is late: an order that depended on it would differ.
        device.gate.clear()
        first, second = device.put(torch.ones(8)), torch.full((9,), 2.0)
        works = [group.allreduce([first]), group.allreduce([second])]
        early = any(work.is_completed() for work in works)
        device.gate.set()
        preceded = device.preceded
        for work in works:
            work.wait()
        assert device.preceded == preceded + 1
        return first, second, early

    for first, second, early in ranks.run(program):
        assert not early
        assert (first == SIZE).all()
        assert (second == 2 * SIZE).all()


def test_results_follow_the_device_work_queued_before_the_call(staged: Staged) -> None:
    """It may still read a tensor that a broadcast fills, or memory that was another tensor's."""
    ranks, devices = staged

    def program(group: InnetProcessGroup) -> tuple[torch.Tensor, bool]:
        device = devices[group.rank()]
        tensor = device.put(values(group.rank(), 10))
        before = len(device.awaited)
        work = group.broadcast([tensor], with_root(dist.BroadcastOptions(), 1))
        awaited = any(found is tensor for found in device.awaited[before:])
        work.wait()
        return tensor, awaited

    for rank, (tensor, awaited) in enumerate(ranks.run(program)):
        assert torch.equal(tensor, values(1, 10))
        assert awaited == (rank != 1)


def test_a_large_tensor_is_sent_in_chunks(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks, devices = staged
    monkeypatch.setattr(staging, "CHUNK_BYTES", 400)

    def program(group: InnetProcessGroup) -> tuple[torch.Tensor, torch.Tensor, int]:
        device = devices[group.rank()]
        before = len(device.fetched)
        reduced, broadcast = (device.put(values(group.rank(), 25, 10)) for _ in range(2))
        futures = [
            group.allreduce([reduced]).get_future(),
            group.broadcast([broadcast]).get_future(),
        ]
        for future in futures:
            future.wait()
        return reduced, broadcast, len(device.fetched) - before

    for rank, (reduced, broadcast, copies) in enumerate(ranks.run(program)):
        assert torch.equal(reduced, total(25, 10))
        assert torch.equal(broadcast, values(0, 25, 10))
        assert copies == (6 if rank == 0 else 3)


def test_failed_broadcasts_in_chunks_count_the_same_on_all_ranks(
    staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After so many broadcasts in a row, all ranks start a barrier for which nobody waits."""
    monkeypatch.setattr(staging, "CHUNK_BYTES", 400)
    ranks, devices = staged
    failing = 1

    def attempt(group: InnetProcessGroup, tensors: list[torch.Tensor]) -> BaseException | None:
        try:
            group.broadcast(tensors, dist.BroadcastOptions()).wait()
        except RuntimeError as error:
            return error
        return None

    def program(group: InnetProcessGroup) -> tuple[list[BaseException | None], torch.Tensor]:
        device = devices[group.rank()]
        large = device.put(torch.zeros(250))
        tensors = [large, large] if group.rank() == failing else [large]
        failed = [attempt(group, tensors) for _ in range(20)]
        fine = [attempt(group, [torch.zeros(8)]) for _ in range(40)]
        assert fine == [None] * 40
        tensor = torch.ones(8)
        group.allreduce([tensor]).wait()
        return failed, tensor

    for failed, tensor in ranks.run(program):
        assert None not in failed
        assert torch.equal(tensor, torch.full((8,), float(SIZE)))
