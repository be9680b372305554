"""The functional collectives, which compilers and DTensor use, over innet."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh

from tests.torch_suite.dtensor_case import DTensorCase, with_comms
from tests.torch_suite.forked_ranks import preload

preload(__name__)

pytestmark = [pytest.mark.torch]


def _of(rank: int, *shape: int) -> torch.Tensor:
    """What ``rank`` contributes: small whole numbers, exact in any order of adding."""
    generator = torch.Generator().manual_seed(100 + rank)
    return torch.randint(-4, 5, shape, generator=generator).float()


class TestFunctionalCollectives(DTensorCase):
    def everyone(self, *shape: int) -> list[torch.Tensor]:
        return [_of(rank, *shape) for rank in range(self.world_size)]

    @with_comms
    def test_all_reduce(self) -> None:
        group = dist.group.WORLD
        parts = torch.stack(self.everyone(5, 3))
        for name, expected in (
            ("sum", parts.sum(0)),
            ("avg", parts.mean(0)),
            ("max", parts.amax(0)),
            ("min", parts.amin(0)),
            ("product", parts.prod(0)),
        ):
            mine = _of(self.rank, 5, 3)
            result = functional.all_reduce(mine, name, group)
            self.assertEqual(result, expected, name)
            self.assertEqual(mine, _of(self.rank, 5, 3), "the input stays as it was")

    @pytest.mark.torch_suite
    @with_comms
    def test_all_gather_in_every_dimension(self) -> None:
        for dim in range(3):
            result = functional.all_gather_tensor(_of(self.rank, 2, 3, 4), dim, dist.group.WORLD)
            self.assertEqual(result, torch.cat(self.everyone(2, 3, 4), dim))

    @with_comms
    def test_reduce_scatter_in_every_dimension(self) -> None:
        total = torch.stack(self.everyone(4, 8, 12)).sum(0)
        for dim in range(3):
            mine = _of(self.rank, 4, 8, 12)
            result = functional.reduce_scatter_tensor(mine, "sum", dim, dist.group.WORLD)
            self.assertEqual(result, total.chunk(self.world_size, dim)[self.rank])

    @pytest.mark.torch_suite
    @with_comms
    def test_all_to_all_of_uneven_parts(self) -> None:
        # Rank r sends r + s + 1 rows to rank s.
        sizes = [self.rank + other + 1 for other in range(self.world_size)]
        rows = torch.cat([torch.full((n, 2), 10.0 * self.rank + s) for s, n in enumerate(sizes)])
        result = functional.all_to_all_single(rows, sizes, sizes, dist.group.WORLD)
        expected = [torch.full((n, 2), 10.0 * s + self.rank) for s, n in enumerate(sizes)]
        self.assertEqual(result, torch.cat(expected))

    @pytest.mark.torch_suite
    @with_comms
    def test_all_to_all_of_even_parts(self) -> None:
        rows = _of(self.rank, 8, 2)
        result = functional.all_to_all_single(rows, None, None, dist.group.WORLD)
        expected = [part.chunk(self.world_size)[self.rank] for part in self.everyone(8, 2)]
        self.assertEqual(result, torch.cat(expected))

    @pytest.mark.torch_suite
    @with_comms
    def test_broadcast(self) -> None:
        for source in range(self.world_size):
            result = functional.broadcast(_of(self.rank, 5), source, dist.group.WORLD)
            self.assertEqual(result, _of(source, 5))

    @pytest.mark.torch_suite
    @with_comms
    def test_permute(self) -> None:
        size = self.world_size
        around = [(rank + 1) % size for rank in range(size)]
        result = functional.permute_tensor(_of(self.rank, 4), around, dist.group.WORLD)
        self.assertEqual(result, _of((self.rank - 1) % size, 4))

    @with_comms
    def test_coalesced(self) -> None:
        group = dist.group.WORLD
        shapes = ((4,), (8, 3), (4, 1, 2))
        mine = [_of(self.rank, *shape) for shape in shapes]
        totals = [torch.stack(self.everyone(*shape)).sum(0) for shape in shapes]
        self.assertEqual(functional.all_reduce_coalesced(mine, "sum", group), totals)
        self.assertEqual(
            functional.all_gather_into_tensor_coalesced(mine, group),
            [torch.cat(self.everyone(*shape)) for shape in shapes],
        )
        self.assertEqual(
            functional.reduce_scatter_tensor_coalesced(mine, "sum", [0, 0, 0], group),
            [total.chunk(self.world_size)[self.rank] for total in totals],
        )

    @pytest.mark.torch_suite
    @with_comms
    def test_several_at_once_waited_for_in_another_order(self) -> None:
        results = [
            functional.all_reduce(torch.full((3,), float(n)), "sum", dist.group.WORLD)
            for n in range(8)
        ]
        for n, result in reversed(list(enumerate(results))):
            waited = functional.wait_tensor(result)
            self.assertEqual(waited, torch.full((3,), float(n * self.world_size)))

    @with_comms
    def test_in_a_dimension_of_a_mesh(self) -> None:
        mesh = init_device_mesh(self.device_type, (2, 2), mesh_dim_names=("outer", "inner"))
        for dim, peer in ((0, (self.rank + 2) % 4), (1, self.rank ^ 1)):
            low, high = sorted((self.rank, peer))
            total = functional.all_reduce(_of(self.rank, 6), "sum", (mesh, dim))
            self.assertEqual(total, _of(low, 6) + _of(high, 6))
            gathered = functional.all_gather_tensor(_of(self.rank, 6), 0, (mesh, dim))
            self.assertEqual(gathered, torch.cat([_of(low, 6), _of(high, 6)]))

    @with_comms
    def test_gradients(self) -> None:
        group = dist.group.WORLD
        weights = self.everyone(4, 3)
        mine = torch.ones(4, 3, requires_grad=True)
        # Everyone's loss depends on everyone's input: gradients are summed on the way back.
        gathered = functional.all_gather_tensor_autograd(mine, 0, group)
        (gathered * torch.cat(weights)).sum().backward()
        self.assertEqual(mine.grad, weights[self.rank] * self.world_size)
        mine.grad = None
        scattered = functional.reduce_scatter_tensor_autograd(mine, "sum", 0, group)
        (scattered * (self.rank + 1)).sum().backward()
        expected = torch.arange(1.0, self.world_size + 1)[:, None].expand(4, 3)
        self.assertEqual(mine.grad, expected)
        mine.grad = None
        exchanged = functional.all_to_all_single_autograd(mine, None, None, group)
        (exchanged * (self.rank + 1)).sum().backward()
        self.assertEqual(mine.grad, expected)
