"""What the hooks share: which gradients they take, and the mean that they give."""

from __future__ import annotations

import torch
import torch.distributed as dist

from innet.errors import CollectiveError

GradientFuture = torch.futures.Future[torch.Tensor]


def require_types(gradients: torch.Tensor, hook: str, *types: torch.dtype) -> None:
    """Refuse gradients of types that ``hook`` does not take.

    Raises:
        CollectiveError: they are of none of ``types``.
    """
    if gradients.dtype not in types:
        names = " or ".join(str(dtype).removeprefix("torch.") for dtype in types)
        raise CollectiveError(
            f"{hook} takes gradients of {names}, not {gradients.dtype}; use fp16_hook or "
            "bf16_hook, or keep the parameters in float32"
        )


def gradients_of(work: dist.Work) -> GradientFuture:
    """What ``work`` leaves in its one tensor."""
    future: GradientFuture = work.get_future().then(lambda ended: ended.value()[0])
    return future


def mean_of_sum(work: dist.Work, ranks: int) -> GradientFuture:
    """The sum that ``work`` leaves in its one tensor, divided in place by the number of ranks."""

    def mean(ended: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
        return ended.value()[0].div_(ranks)

    future: GradientFuture = work.get_future().then(mean)
    return future
