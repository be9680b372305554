"""A DTensor changes its placements over innet and stays the same tensor."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_tensor,
)

from tests.torch_suite.dtensor_case import DTensorCase, with_comms
from tests.torch_suite.forked_ranks import preload

preload(__name__)

pytestmark = [pytest.mark.torch]

_PLACEMENTS: tuple[Placement, ...] = (Replicate(), Shard(0), Shard(1))
# Even over four ranks, uneven, and with ranks that hold nothing.
_SHAPES = ((8, 4), (7, 5), (2, 3))


def _whole(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The same on each rank: small whole numbers, exact in any order of adding."""
    generator = torch.Generator().manual_seed(7)
    return torch.randint(-4, 5, shape, generator=generator).to(dtype)


class TestRedistribute(DTensorCase):
    @pytest.mark.torch_suite
    @with_comms
    def test_between_all_placements(self) -> None:
        mesh = self.build_device_mesh()
        for shape, source, target in itertools.product(_SHAPES, _PLACEMENTS, _PLACEMENTS):
            whole = _whole(*shape)
            moved = distribute_tensor(whole, mesh, [source]).redistribute(mesh, [target])
            self.assertEqual(moved.placements, (target,))
            expected = distribute_tensor(whole, mesh, [target])
            self.assertEqual(moved.to_local(), expected.to_local(), f"{shape} {source} {target}")
            self.assertEqual(moved.full_tensor(), whole)

    @with_comms
    def test_partial_sums_become_what_is_asked_for(self) -> None:
        mesh = self.build_device_mesh()
        operators = {
            "sum": sum,
            "avg": lambda parts: sum(parts) / self.world_size,
            "max": lambda parts: torch.stack(parts).amax(0),
            "min": lambda parts: torch.stack(parts).amin(0),
        }
        for (name, reduce), target in itertools.product(operators.items(), _PLACEMENTS):
            parts = [_whole(8, 4) * (rank - 1) for rank in range(self.world_size)]
            partial = DTensor.from_local(parts[self.rank], mesh, [Partial(name)])
            expected = distribute_tensor(reduce(parts), mesh, [target])
            moved = partial.redistribute(mesh, [target])
            self.assertEqual(moved.to_local(), expected.to_local(), f"{name} to {target}")

    @pytest.mark.torch_suite
    @with_comms
    def test_every_type_of_element(self) -> None:
        mesh = self.build_device_mesh()
        for dtype in (
            torch.float64,
            torch.float16,
            torch.bfloat16,
            torch.int64,
            torch.int32,
            torch.uint8,
            torch.bool,
            torch.complex64,
        ):
            whole = _whole(8, 4).abs().to(dtype)
            for source, target in itertools.permutations(_PLACEMENTS, 2):
                moved = distribute_tensor(whole, mesh, [source]).redistribute(mesh, [target])
                self.assertEqual(moved.full_tensor(), whole, f"{dtype} {source} {target}")

    @pytest.mark.torch_suite
    @with_comms
    def test_asynchronously(self) -> None:
        mesh = self.build_device_mesh()
        whole = _whole(8, 4)
        sharded = distribute_tensor(whole, mesh, [Shard(0)])
        replicas = [sharded.redistribute(mesh, [Replicate()], async_op=True) for _ in range(4)]
        for replica in replicas:
            self.assertEqual(replica.to_local(), whole)

    @pytest.mark.torch_suite
    @with_comms
    def test_gradients_take_the_way_back(self) -> None:
        mesh = self.build_device_mesh()
        for source, target in itertools.product(_PLACEMENTS, _PLACEMENTS):
            whole = _whole(8, 4)
            leaf = distribute_tensor(whole, mesh, [source]).requires_grad_()
            (
                leaf.redistribute(mesh, [target]) * distribute_tensor(whole, mesh, [target])
            ).sum().backward()
            self.assertEqual(leaf.grad.placements, (source,))
            self.assertEqual(leaf.grad.full_tensor(), whole)

    @with_comms
    def test_two_dimensional_mesh(self) -> None:
        mesh = init_device_mesh(self.device_type, (2, 2), mesh_dim_names=("outer", "inner"))
        pairs = list(itertools.product(_PLACEMENTS, repeat=2))
        whole = _whole(6, 5)
        for source, target in itertools.product(pairs, pairs):
            moved = distribute_tensor(whole, mesh, source).redistribute(mesh, target)
            expected = distribute_tensor(whole, mesh, target)
            self.assertEqual(moved.to_local(), expected.to_local(), f"{source} {target}")
            self.assertEqual(moved.full_tensor(), whole)

    @pytest.mark.torch_suite
    @with_comms
    def test_partial_in_one_dimension_of_two(self) -> None:
        mesh = init_device_mesh(self.device_type, (2, 2), mesh_dim_names=("outer", "inner"))
        outer = mesh.get_local_rank("outer")
        for target in itertools.product(_PLACEMENTS, repeat=2):
            local = _whole(6, 4) * (outer + 1)
            partial = DTensor.from_local(local, mesh, [Partial(), Replicate()])
            expected = distribute_tensor(_whole(6, 4) * 3, mesh, target)
            moved = partial.redistribute(mesh, target)
            self.assertEqual(moved.to_local(), expected.to_local(), str(target))

    @pytest.mark.torch_suite
    @with_comms
    def test_slices_of_a_mesh_have_groups_of_their_own(self) -> None:
        mesh = init_device_mesh(self.device_type, (2, 2), mesh_dim_names=("outer", "inner"))
        for name, members in (
            ("outer", (self.rank % 2, self.rank % 2 + 2)),
            ("inner", (self.rank // 2 * 2, self.rank // 2 * 2 + 1)),
        ):
            self.assertEqual(tuple(dist.get_process_group_ranks(mesh.get_group(name))), members)
            ones = DTensor.from_local(torch.tensor([float(self.rank)]), mesh[name], [Partial()])
            self.assertEqual(ones.full_tensor(), torch.tensor([float(sum(members))]))

    @with_comms
    def test_distributing_takes_the_first_rank_s_values(self) -> None:
        mesh = self.build_device_mesh()
        mine = torch.full((8, 4), float(self.rank))
        for placement in _PLACEMENTS:
            whole = distribute_tensor(mine, mesh, [placement]).full_tensor()
            self.assertEqual(whole, torch.zeros(8, 4))
