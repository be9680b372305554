"""What the hooks share: their group, the gradients they take, the mean they give."""

from __future__ import annotations

import torch
import torch.distributed as dist

from innet.errors import CollectiveError
from innet.torch_backend.process_group import InnetProcessGroup


def innet_group(group: dist.ProcessGroup | None) -> InnetProcessGroup:
    """``group``, or the default group.

    Raises:
        CollectiveError: it is of another backend.
    """
    chosen = dist.group.WORLD if group is None else group
    if not isinstance(chosen, InnetProcessGroup):
        raise CollectiveError(
            f"this hook needs a process group of the innet backend, not {chosen}; call "
            "init_process_group('innet'), or give the hook's state its process_group"
        )
    return chosen


def checked_ratio(ratio: float) -> float:
    """``ratio``, which is above 0 and at most 1.

    Raises:
        CollectiveError: there is no such ratio.
    """
    if not 0 < ratio <= 1:
        raise CollectiveError(f"a ratio of {ratio} is not above 0 and at most 1; try 0.01")
    return ratio


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
