"""Divides a model among the ranks, with PyTorch's own means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from gpt.experts import MixtureOfExperts
from gpt.layout import Layout
from gpt.model import GPT, Attention, loss_of
from gpt.ring_attention import RingAttention

SCHEDULES: dict[str, Callable[..., Schedule1F1B | ScheduleGPipe]] = {
    "1f1b": Schedule1F1B,
    "gpipe": ScheduleGPipe,
}


@dataclass(frozen=True)
class ParallelOptions:
    """Details of some kinds of parallelism.

    Attributes:
        schedule: of a pipeline, a key of :data:`SCHEDULES`.
        microbatches: into which a pipeline cuts its part of a batch.
        bucket_bytes: gradients that DistributedDataParallel averages at once.
    """

    schedule: str = "1f1b"
    microbatches: int = 4
    bucket_bytes: int = 4 << 20


class ParallelModel:
    """A model divided among all ranks, and how it makes gradients out of its part of a batch.

    Attributes:
        model: this rank's part, without wrappers around it.
        mesh: the ranks, a dimension for each kind of the layout.
    """

    def __init__(self, model: GPT, layout: Layout, options: ParallelOptions) -> None:
        """Every rank calls it with the same model; ``model`` itself is divided.

        The default process group must be there.
        """
        self.model = model
        self.layout = layout
        self.mesh = init_device_mesh(
            "cpu", tuple(layout.sizes.values()), mesh_dim_names=tuple(layout.sizes)
        )
        self._stage = self._coordinate("pp")
        if "pp" in layout.sizes:
            keep_stage(model, self._stage, layout.of("pp"))
        if "ep" in layout.sizes:
            for mixture in model.mixtures():
                mixture.distribute(self.mesh.get_group("ep"))
        if "cp" in layout.sizes:
            cut_context(model, self.mesh.get_group("cp"))
        if "tp" in layout.sizes:
            cut_layers(model, self.mesh["tp"])
        self._wrapped = self._data_parallel(options)
        self._schedule = self._pipeline(options) if "pp" in layout.sizes else None

    def part_of(self, tensor: torch.Tensor) -> torch.Tensor:
        """This rank's part of inputs or targets, shape ``(batch, context)`` of the whole batch."""
        index = 0
        for kind in ("ddp", "fsdp", "ep"):
            index = index * self.layout.of(kind) + self._coordinate(kind)
        part = tensor.chunk(self.layout.batch_parts)[index]
        return part.chunk(self.layout.of("cp"), dim=1)[self._coordinate("cp")].contiguous()

    def gradients(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor | None:
        """Forward and backward.

        Args:
            inputs, targets: the whole batch, shape ``(batch, context)``.

        Returns:
            The mean loss over this rank's part; ``None`` where another stage has it.
        """
        inputs, targets = self.part_of(inputs), self.part_of(targets)
        if self._schedule is not None:
            return self._run_schedule(inputs, targets)
        loss = loss_of(self._wrapped(inputs), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        self._average_experts()
        return loss.detach()

    def _run_schedule(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor | None:
        assert self._schedule is not None
        is_last = self._stage == self.layout.of("pp") - 1
        losses: list[torch.Tensor] = []
        self._schedule.step(
            *([inputs] if self._stage == 0 else []),
            target=targets if is_last else None,
            losses=losses if is_last else None,
        )
        return torch.stack(losses).mean().detach() if is_last else None

    def _coordinate(self, kind: str) -> int:
        return self.mesh.get_local_rank(kind) if kind in self.layout.sizes else 0

    def _data_parallel(self, options: ParallelOptions) -> nn.Module:
        kinds = self.layout.sizes.keys()
        if "fsdp" in kinds or ("ddp" in kinds and kinds & {"pp", "tp"}):
            return self._fully_sharded()
        if kinds & {"ddp", "cp", "ep"}:
            return self._replicated(options)
        return self.model

    def _replicated(self, options: ParallelOptions) -> nn.Module:
        experts = [
            f"{name}.{own}"
            for name, module in self.model.named_modules()
            if isinstance(module, MixtureOfExperts) and "ep" in self.layout.sizes
            for own in ("up", "down")
        ]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(  # type: ignore[no-untyped-call]
            self.model, experts
        )
        return DistributedDataParallel(
            self.model,
            process_group=self._mesh_of("ddp", "cp", "ep").get_group(),
            bucket_cap_mb=options.bucket_bytes / (1 << 20),
            gradient_as_bucket_view=True,
        )

    def _fully_sharded(self) -> nn.Module:
        if "fsdp" in self.layout.sizes:
            mesh = self._mesh_of("fsdp", "cp")
            if "ddp" in self.layout.sizes:
                mesh = self.mesh["ddp", "fsdp"]
        else:
            # Copies by FSDP2 with one shard: DistributedDataParallel takes no DTensors, and fails
            # an assertion when a pipeline has more than two microbatches under way.
            mesh = self._with_one_shard()
        blocks = [fully_shard(block, mesh=mesh) for block in self.model.blocks.values()]
        gather_ahead(fully_shard(self.model, mesh=mesh), blocks)
        return self.model

    def _average_experts(self) -> None:
        """What DistributedDataParallel does for the others: each expert has gradients of all
        bytes that came to it, from each copy of it."""
        if "ep" not in self.layout.sizes:
            return
        for mixture in self.model.mixtures():
            for parameter in (mixture.up, mixture.down):
                assert parameter.grad is not None
                parameter.grad /= dist.get_world_size()
                if "ddp" in self.layout.sizes:
                    dist.all_reduce(parameter.grad, group=self.mesh.get_group("ddp"))

    def _mesh_of(self, *kinds: str) -> DeviceMesh:
        """One dimension out of those of ``kinds`` that the layout has."""
        present = tuple(kind for kind in kinds if kind in self.layout.sizes)
        if len(present) == 1:
            return self.mesh[present[0]]
        return self.mesh[present]._flatten("_".join(present))

    def _with_one_shard(self) -> DeviceMesh:
        names = (*self.layout.sizes, "shard")
        sizes = (*self.layout.sizes.values(), 1)
        return init_device_mesh("cpu", sizes, mesh_dim_names=names)["ddp", "shard"]

    def _pipeline(self, options: ParallelOptions) -> Schedule1F1B | ScheduleGPipe:
        stage = PipelineStage(
            self._wrapped,
            self._stage,
            self.layout.of("pp"),
            torch.device("cpu"),
            group=self.mesh.get_group("pp"),
        )
        return SCHEDULES[options.schedule](stage, options.microbatches, loss_fn=loss_of)


def keep_stage(model: GPT, stage: int, stages: int) -> None:
    """Take away what the other stages of a pipeline have."""
    layers = [str(layer) for layer in range(model.shape.layers)]
    first = len(layers) * stage // stages
    end = len(layers) * (stage + 1) // stages
    for layer in layers[:first] + layers[end:]:
        del model.blocks[layer]
    if stage > 0:
        model.token_embedding = model.position_embedding = None
    if stage < stages - 1:
        model.norm = model.head = None


def gather_ahead(model: FSDPModule, layers: Sequence[FSDPModule]) -> None:
    """Have FSDP2 gather each layer while the one before it is computed.

    With CUDA's streams it does so by itself. On the CPU each gathering would block its caller.

    Args:
        layers: of the model, sharded each for itself, in the order of forward.
    """
    model._set_unshard_async_op(True)
    for module, following in pairwise([model, *layers]):
        module.set_modules_to_forward_prefetch([following])


def cut_context(model: GPT, group: dist.ProcessGroup) -> None:
    """Give each rank of the group a part of the context."""
    model.first_position = model.shape.context // group.size() * group.rank()
    for module in model.modules():
        if isinstance(module, Attention):
            module.attend = RingAttention(group)


def cut_layers(model: GPT, mesh: DeviceMesh) -> None:
    """Give each rank some of the heads and of the hidden units (Megatron-LM's way).

    Inputs become DTensors once for all layers that share them: their gradients are then added up
    over the ranks once, not for each layer.
    """
    whole = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate())
    for block in model.blocks.values():
        parallelize_module(
            block,
            mesh,
            {
                "attention": whole,
                "attention.query": ColwiseParallel(),
                "attention.key": ColwiseParallel(),
                "attention.value": ColwiseParallel(),
                "attention.output": RowwiseParallel(),
                "mlp": whole,
                "mlp.up": ColwiseParallel(),
                "mlp.down": RowwiseParallel(),
            },
        )
