"""Modules whose parameters lie on several hosts train as they do on one."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from tests.torch_suite.dtensor_case import DTensorCase, common_dtensor, with_comms
from tests.torch_suite.forked_ranks import preload

preload(__name__)

pytestmark = [pytest.mark.torch]

_STEPS = 3
_MLP_PLAN = {"net1": ColwiseParallel(), "net2": RowwiseParallel()}


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


class TestTensorParallel(DTensorCase):
    def train_alike(self, module: nn.Module, reference: nn.Module, *shape: int) -> None:
        """Both get the same inputs; losses and parameters stay equal within rounding."""
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (module, reference)]
        for step in range(_STEPS):
            torch.manual_seed(step)
            inputs = torch.rand(*shape)
            outputs = [_whole(m(inputs)) for m in (module, reference)]
            self.assertEqual(outputs[0], outputs[1])
            for output, optimizer in zip(outputs, optimizers, strict=True):
                optimizer.zero_grad()
                output.square().mean().backward()
                optimizer.step()
        expected = dict(reference.named_parameters())
        for name, parameter in module.named_parameters():
            self.assertEqual(_whole(parameter), expected[name], name)

    @pytest.mark.torch_suite
    @with_comms
    def test_columns_then_rows(self) -> None:
        mesh = self.build_device_mesh()
        module = common_dtensor.MLPModule(self.device_type)
        reference = copy.deepcopy(module)
        parallel = parallelize_module(module, mesh, _MLP_PLAN)
        self.train_alike(parallel, reference, 8, 10)

    @pytest.mark.torch_suite
    @with_comms
    def test_distributed_without_a_plan(self) -> None:
        mesh = self.build_device_mesh()
        module = common_dtensor.MLPModule(self.device_type)
        reference = copy.deepcopy(module)
        replicated = distribute_module(
            module,
            mesh,
            input_fn=lambda _, inputs, mesh: (
                DTensor.from_local(inputs[0], mesh, [Replicate()], run_check=False),
            ),
        )
        self.train_alike(replicated, reference, 8, 10)

    @pytest.mark.torch_suite
    @with_comms
    def test_transformer(self) -> None:
        self._transformer(use_seq_parallel=False)

    @with_comms
    def test_transformer_with_sharded_sequences(self) -> None:
        self._transformer(use_seq_parallel=True)

    def _transformer(self, *, use_seq_parallel: bool) -> None:
        torch.manual_seed(0)
        arguments = common_dtensor.ModelArgs(dropout_p=0.0, n_heads=4, dim=32, vocab_size=16)
        reference = common_dtensor.Transformer(arguments)
        parallel = common_dtensor.Transformer.parallelize(
            copy.deepcopy(reference),
            self.build_device_mesh(),
            use_seq_parallel,
            local_output_for_attn=True,
        )
        tokens = torch.randint(0, 16, (8, 8), generator=torch.Generator().manual_seed(1))
        losses = []
        for module in (parallel, reference):
            output = _whole(module(tokens))
            loss = nn.functional.cross_entropy(output.flatten(0, 1), tokens.flatten())
            loss.backward()
            losses.append(loss)
        self.assertEqual(losses[0], losses[1])
        expected = dict(reference.named_parameters())
        for name, parameter in parallel.named_parameters():
            self.assertEqual(_whole(parameter.grad), expected[name].grad, name)

    @pytest.mark.torch_suite
    @with_comms
    def test_fully_sharded(self) -> None:
        mesh = self.build_device_mesh()
        module = common_dtensor.MLPModule(self.device_type)
        reference = copy.deepcopy(module)
        for layer in (module.net1, module.net2, module):
            fully_shard(layer, mesh=mesh)
        self.assertEqual(module.net1.weight.placements, (Shard(0),))
        self.train_alike(module, reference, 8, 10)

    @pytest.mark.torch_suite
    @with_comms
    def test_fully_sharded_and_tensor_parallel(self) -> None:
        mesh = init_device_mesh(self.device_type, (2, 2), mesh_dim_names=("dp", "tp"))
        module = common_dtensor.MLPModule(self.device_type)
        reference = copy.deepcopy(module)
        parallelize_module(module, mesh["tp"], _MLP_PLAN)
        for layer in (module.net1, module.net2, module):
            fully_shard(layer, mesh=mesh["dp"])
        self.train_alike(module, reference, 8, 10)

    @pytest.mark.torch_suite
    @with_comms
    def test_replicas_of_shards(self) -> None:
        mesh = init_device_mesh(self.device_type, (2, 2), mesh_dim_names=("replicate", "shard"))
        module = common_dtensor.MLPModule(self.device_type)
        reference = copy.deepcopy(module)
        fully_shard(module, mesh=mesh)
        self.train_alike(module, reference, 8, 10)
