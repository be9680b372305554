"""Trains two layers of Megatron-Core over innet, split over the ranks.

innet run star8 -- python apps/with_megatron.py
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.model_parallel_config import ModelParallelConfig
from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear
from with_frameworks.training import StepTimer, argument_parser, report

WIDTH, TOKENS, BATCH = 32, 16, 4


def set_weights(layer: Any, seed: int, dimension: int) -> None:
    """Give the layer this rank's part of weights that do not depend on the number of ranks."""
    generator = torch.Generator().manual_seed(seed)
    shape = list(layer.weight.shape)
    shape[dimension] *= dist.get_world_size()
    whole = torch.randn(shape, generator=generator) / WIDTH**0.5
    with torch.no_grad():
        layer.weight.copy_(whole.chunk(dist.get_world_size(), dimension)[dist.get_rank()])
        layer.bias.zero_()


def make_layers(config: ModelParallelConfig) -> tuple[ColumnParallelLinear, RowParallelLinear]:
    """A layer split by its outputs, and one split by its inputs."""
    options: dict[str, Any] = {"config": config, "init_method": torch.nn.init.zeros_, "bias": True}
    first = ColumnParallelLinear(WIDTH, 4 * WIDTH, gather_output=False, **options)
    second = RowParallelLinear(
        4 * WIDTH, WIDTH, input_is_parallel=True, skip_bias_add=False, **options
    )
    set_weights(first, 1, 0)
    set_weights(second, 2, 1)
    return first, second


def main() -> None:
    """Train, and print the loss and the time of a step."""
    arguments = argument_parser(__doc__).parse_args()
    dist.init_process_group(arguments.backend)
    ranks = dist.get_world_size()
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=ranks)
    config = ModelParallelConfig(
        tensor_model_parallel_size=ranks,
        use_cpu_initialization=True,
        perform_initialization=False,
        params_dtype=torch.float32,
    )
    first, second = make_layers(config)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.05)
    generator = torch.Generator().manual_seed(3)
    timer = StepTimer()
    loss = torch.zeros(())
    for _ in range(arguments.steps):
        inputs = torch.randn(TOKENS, BATCH, WIDTH, generator=generator)
        hidden, _ = first(inputs)
        outputs, _ = second(torch.relu(hidden))
        loss = torch.square(outputs - inputs.flip(-1)).mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        timer.end_step()
    mean = loss.detach()
    dist.all_reduce(mean, op=dist.ReduceOp.SUM)
    report(mean.item() / ranks, timer)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
