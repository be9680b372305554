"""A DTensor from making to saving: uneven parts, changes in place, gradients, optimizers, files."""

from __future__ import annotations

import itertools
import tempfile

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_tensor,
)
from torch.nn import functional

from tests.torch_suite.dtensor_case import DTensorCase, with_comms
from tests.torch_suite.forked_ranks import preload

preload(__name__)

pytestmark = [pytest.mark.torch, pytest.mark.torch_suite]

_PLACEMENTS: tuple[Placement, ...] = (Replicate(), Shard(0), Shard(1))


def _random(*shape: int) -> torch.Tensor:
    """The same on each rank."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


class TestLife(DTensorCase):
    @with_comms
    def test_made_of_local_parts_of_other_sizes(self) -> None:
        mesh = self.build_device_mesh()
        for rows in (9, 6, 3, 1):
            whole = _random(rows, 3)
            parts = whole.chunk(self.world_size)
            mine = parts[self.rank] if self.rank < len(parts) else whole[:0]
            made = DTensor.from_local(
                mine, mesh, [Shard(0)], shape=whole.shape, stride=whole.stride()
            )
            self.assertEqual(made.full_tensor(), whole)
            self.assertEqual((made * 2 + 1).sum(0).full_tensor(), (whole * 2 + 1).sum(0))

    @with_comms
    def test_changed_in_place(self) -> None:
        mesh = self.build_device_mesh()
        for placement in _PLACEMENTS:
            whole = _random(8, 4)
            sharded = distribute_tensor(whole.clone(), mesh, [placement])
            for tensor in (sharded, whole):
                tensor.mul_(2).add_(tensor).clamp_(-1, 1)
                tensor.masked_fill_(tensor < 0, 5.0)
            self.assertEqual(sharded.placements, (placement,))
            self.assertEqual(sharded.full_tensor(), whole)
            self.assertTrue(torch.equal(sharded, distribute_tensor(whole, mesh, [placement])))
            self.assertEqual(torch.zeros_like(sharded).full_tensor(), torch.zeros(8, 4))

    @with_comms
    def test_indexed_gathered_and_scattered(self) -> None:
        mesh = self.build_device_mesh()
        whole, rows = _random(8, 4), torch.tensor([5, 0, 7, 2])
        columns = (torch.arange(32) % 4).view(8, 4)
        chosen = distribute_tensor(rows, mesh, [Replicate()])
        places = distribute_tensor(columns, mesh, [Replicate()])
        for placement in _PLACEMENTS:
            sharded = distribute_tensor(whole, mesh, [placement])
            for name, result, expected in (
                ("index", sharded[chosen], whole[rows]),
                ("index_select", sharded.index_select(0, chosen), whole[rows]),
                ("gather", sharded.gather(1, places), whole.gather(1, columns)),
                (
                    "scatter",
                    torch.scatter(sharded, 1, places, 1.5),
                    torch.scatter(whole, 1, columns, 1.5),
                ),
            ):
                self.assertEqual(result.full_tensor(), expected, f"{name} {placement}")

    @with_comms
    def test_gradients_of_local_and_of_whole_tensors(self) -> None:
        mesh = self.build_device_mesh()
        for placement in _PLACEMENTS:
            leaf = distribute_tensor(_random(8, 4), mesh, [placement]).requires_grad_()
            (leaf.full_tensor() * _random(8, 4)).sum().backward()
            self.assertEqual(leaf.grad.full_tensor(), _random(8, 4))
        replica = distribute_tensor(_random(8, 4), mesh, [Replicate()]).requires_grad_()
        local = replica.to_local(grad_placements=[Partial()])
        (local * (self.rank + 1)).sum().backward()
        self.assertEqual(replica.grad.full_tensor(), torch.full((8, 4), 10.0))

    @with_comms
    def test_products_and_lookups_on_a_mesh_of_two_dimensions(self) -> None:
        mesh = init_device_mesh(self.device_type, (2, 2), mesh_dim_names=("outer", "inner"))
        a, b, rows = _random(8, 6), _random(6, 12), torch.tensor([5, 0, 3, 3])
        pairs = list(itertools.product(_PLACEMENTS, repeat=2))
        for left, right in itertools.product(pairs, pairs):
            x, y = distribute_tensor(a, mesh, left), distribute_tensor(b, mesh, right)
            self.assertEqual(torch.mm(x, y).full_tensor(), a @ b, f"{left} {right}")
        indices = distribute_tensor(rows, mesh, [Replicate(), Replicate()])
        for pair in itertools.product((Replicate(), Shard(1)), _PLACEMENTS):
            table = distribute_tensor(a, mesh, pair)
            found = functional.embedding(indices, table)
            self.assertEqual(found.full_tensor(), a[rows], str(pair))

    @with_comms
    def test_optimizers_and_the_norm_of_gradients(self) -> None:
        mesh = self.build_device_mesh()
        for make in (torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad):
            whole = nn.Parameter(_random(7, 4))
            sharded = nn.Parameter(distribute_tensor(_random(7, 4), mesh, [Shard(0)]))
            norms = []
            for parameter in (whole, sharded):
                optimizer = make([parameter], lr=0.1)
                for step in range(3):
                    (parameter * (step + 1)).square().sum().backward()
                    norm = nn.utils.clip_grad_norm_([parameter], 1.0)
                    norms.append(norm.full_tensor() if isinstance(norm, DTensor) else norm)
                    optimizer.step()
                    optimizer.zero_grad()
            self.assertEqual(norms[:3], norms[3:])
            self.assertEqual(sharded.full_tensor(), whole.detach(), make.__name__)

    @with_comms
    def test_saved_and_loaded_with_other_placements(self) -> None:
        mesh = self.build_device_mesh()
        square = init_device_mesh(self.device_type, (2, 2))
        with tempfile.TemporaryDirectory() as mine:
            place = [mine]
            dist.broadcast_object_list(place)
            for number, placement in enumerate(_PLACEMENTS):
                whole, path = _random(7, 5), f"{place[0]}/{number}"
                dcp.save({"w": distribute_tensor(whole, mesh, [placement])}, checkpoint_id=path)
                for target in _PLACEMENTS:
                    loaded = distribute_tensor(torch.zeros(7, 5), mesh, [target])
                    dcp.load({"w": loaded}, checkpoint_id=path)
                    self.assertEqual(loaded.full_tensor(), whole, f"{placement} to {target}")
                loaded = distribute_tensor(torch.zeros(7, 5), square, [Shard(1), Shard(0)])
                dcp.load({"w": loaded}, checkpoint_id=path)
                self.assertEqual(loaded.full_tensor(), whole, f"{placement} to two dimensions")
            dist.barrier()  # the first rank then removes it
