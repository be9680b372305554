"""Operators on DTensors, whose inputs lie on the hosts in every way, give what tensors give.

PyTorch's converter tries each combination of placements: replicated, and sharded in each dimension
that the four ranks divide.
"""

from __future__ import annotations

import pytest
import torch
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
    ones,
    zeros,
)
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.torch_suite.dtensor_case import DTensorCase, with_comms
from tests.torch_suite.forked_ranks import preload

preload(__name__)

pytestmark = [pytest.mark.torch, pytest.mark.torch_suite]


def _random(*shape: int) -> torch.Tensor:
    """The same on each rank."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


class TestOperators(DTensorCase):
    def check(self, operator: object, *tensors: torch.Tensor, **options: object) -> None:
        self._test_op(self.build_device_mesh(), operator, *tensors, **options)

    @with_comms
    def test_elementwise(self) -> None:
        a, b = _random(8, 4), _random(8, 4)
        for operator in (torch.add, torch.mul, torch.sub, torch.div, torch.maximum):
            self.check(operator, a, b)
        for function in (
            torch.exp,
            torch.tanh,
            torch.relu,
            torch.sigmoid,
            functional.gelu,
            torch.neg,
        ):
            self.check(function, a)
        self.check(torch.where, a > 0, a, b)

    @with_comms
    def test_matrix_products(self) -> None:
        self.check(torch.mm, _random(8, 4), _random(4, 12))
        self.check(torch.addmm, _random(12), _random(8, 4), _random(4, 12))
        self.check(torch.bmm, _random(4, 8, 4), _random(4, 4, 8))
        self.check(torch.matmul, _random(4, 8), _random(8))

    @with_comms
    def test_reductions(self) -> None:
        a = _random(8, 4)
        for operator in (torch.sum, torch.mean, torch.amax, torch.amin):
            for dim in (0, 1, (0, 1)):
                self.check(operator, a, dim=dim)
                self.check(operator, a, dim=dim, keepdim=True)
        self.check(torch.var, a, dim=0)
        self.check(torch.linalg.vector_norm, a)

    @with_comms
    def test_arg_max_over_a_sharded_dimension(self) -> None:
        a = _random(8, 4)
        for dim in (0, 1):
            self.check(torch.argmax, a, dim=dim)

    @with_comms
    def test_softmax_and_normalisation(self) -> None:
        a = _random(8, 12)
        for dim in (0, 1):
            self.check(torch.softmax, a, dim=dim)
            self.check(torch.log_softmax, a, dim=dim)
        self.check(functional.layer_norm, a, (12,), _random(12), _random(12))

    @with_comms
    def test_views_and_selections(self) -> None:
        a = _random(8, 4, 12)
        self.check(lambda t: t.view(32, 12), a)
        self.check(lambda t: t.flatten(1), a)
        self.check(lambda t: t.permute(2, 0, 1), a)
        self.check(lambda t: t.transpose(0, 2), a)
        self.check(lambda t: t[1:5], a)
        self.check(lambda t: t.select(0, 3), a)
        self.check(lambda t: torch.cat([t, t], 1), a)
        self.check(lambda t: torch.stack([t, t]), a)
        self.check(lambda t: t.split(2, 1)[1], a)
        self.check(lambda t: t.topk(2, -1).values, a)

    @with_comms
    def test_embedding_sharded_by_rows(self) -> None:
        # Each rank looks up what it has; the others' rows are masked and summed.
        mesh = self.build_device_mesh()
        table, rows = _random(18, 6), torch.arange(36).reshape(4, 9) % 18
        for placement in (Shard(0), Shard(1), Replicate()):
            sharded = distribute_tensor(table, mesh, [placement]).requires_grad_()
            whole = table.clone().requires_grad_()
            indices = distribute_tensor(rows, mesh, [Replicate()])
            result = functional.embedding(indices, sharded)
            expected = functional.embedding(rows, whole)
            self.assertEqual(result.full_tensor(), expected)
            result.sum().backward()
            expected.sum().backward()
            self.assertEqual(sharded.grad.full_tensor(), whole.grad)

    @with_comms
    def test_loss_over_sharded_classes(self) -> None:
        mesh = self.build_device_mesh()
        scores, labels = _random(6, 16), torch.tensor([0, 5, 15, 7, 2, 11])
        whole = scores.clone().requires_grad_()
        expected = functional.cross_entropy(whole, labels)
        expected.backward()
        sharded = distribute_tensor(scores, mesh, [Shard(1)]).requires_grad_()
        with loss_parallel():
            loss = functional.cross_entropy(sharded, labels)
            loss.backward()
        self.assertEqual(loss.full_tensor(), expected)
        self.assertEqual(sharded.grad.full_tensor(), whole.grad)

    @with_comms
    def test_gradients_of_a_product(self) -> None:
        mesh = self.build_device_mesh()
        a, b = _random(8, 4).requires_grad_(), _random(4, 12).requires_grad_()
        torch.mm(a, b).square().sum().backward()
        for left in (Replicate(), Shard(0), Shard(1)):
            for right in (Replicate(), Shard(0), Shard(1)):
                x = distribute_tensor(a.detach(), mesh, [left]).requires_grad_()
                y = distribute_tensor(b.detach(), mesh, [right]).requires_grad_()
                torch.mm(x, y).square().sum().backward()
                self.assertEqual(x.grad.full_tensor(), a.grad, f"{left} {right}")
                self.assertEqual(y.grad.full_tensor(), b.grad, f"{left} {right}")

    @with_comms
    def test_attention(self) -> None:
        q, k, v = (_random(4, 8, 6, 16) for _ in range(3))
        expected = functional.scaled_dot_product_attention(q, k, v)
        mesh = self.build_device_mesh()
        for placement in (Shard(0), Shard(1), Replicate()):
            parts = [distribute_tensor(t, mesh, [placement]) for t in (q, k, v)]
            with sdpa_kernel(SDPBackend.MATH):  # the one that DTensor knows on the CPU
                result = functional.scaled_dot_product_attention(*parts)
            self.assertEqual(result.full_tensor(), expected)

    @with_comms
    def test_what_is_made_distributed(self) -> None:
        mesh = self.build_device_mesh()
        for placement in (Shard(0), Replicate()):
            self.assertEqual(
                zeros(7, 3, device_mesh=mesh, placements=[placement]).full_tensor(),
                torch.zeros(7, 3),
            )
            self.assertEqual(
                ones(7, 3, device_mesh=mesh, placements=[placement]).full_tensor(),
                torch.ones(7, 3),
            )

    @with_comms
    def test_partial_operands(self) -> None:
        mesh = self.build_device_mesh()
        a = _random(8, 4)
        partial = DTensor.from_local(a, mesh, [Partial()])
        self.assertEqual((partial + partial).full_tensor(), 2 * self.world_size * a)
        self.assertEqual(partial.relu().full_tensor(), (self.world_size * a).relu())
