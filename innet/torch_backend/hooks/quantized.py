"""Gradients in 16 or 8 bits on the wire."""

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

from innet.torch_backend.hooks.error_feedback import ErrorFeedback
from innet.torch_backend.hooks.gradients import (
    GradientFuture,
    innet_group,
    mean_of_sum,
    require_types,
)
from innet.torch_backend.tensors import as_array


def fp16_hook(group: dist.ProcessGroup | None, bucket: GradBucket) -> GradientFuture:
    """The mean of the gradients, sent as float16.

    Each rank divides by the number of ranks and rounds to float16; nodes add in float32 and round
    once each. What is too large for float16 becomes infinity: use a ``GradScaler``.

    Example::

        model.register_comm_hook(None, hooks.fp16_hook)
    """
    return _in_sixteen_bits(group, bucket, torch.float16)


def bf16_hook(group: dist.ProcessGroup | None, bucket: GradBucket) -> GradientFuture:
    """The mean of the gradients, sent as bfloat16: the range of float32, 8 bits of precision."""
    return _in_sixteen_bits(group, bucket, torch.bfloat16)


def _in_sixteen_bits(
    group: dist.ProcessGroup | None, bucket: GradBucket, dtype: torch.dtype
) -> GradientFuture:
    innet = innet_group(group)
    gradients = bucket.buffer()
    sent = (gradients / innet.size()).to(dtype)

    def widened(ended: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
        return gradients.copy_(ended.value()[0])

    return innet.allreduce([sent]).get_future().then(widened)


class Q8State(ErrorFeedback):
    """The state of :func:`q8_hook`.

    Args:
        parameters: of the model.
        process_group: of the model; by default the default group.
    """


def q8_hook(state: Q8State, bucket: GradBucket) -> GradientFuture:
    """The mean of the gradients, sent in 8 bits an element, with error feedback.

    What rounding takes from this rank's gradients is added to those of the next step. A block of 32
    gradients with NaN or infinity on any rank is NaN on all.

    Raises:
        CollectiveError: the gradients are not float32, or the state is of another model.

    Example::

        state = hooks.Q8State(model.parameters())
        model.register_comm_hook(state, hooks.q8_hook)
        checkpoint["hook"] = state.state_dict()
    """
    gradients = bucket.buffer()
    require_types(gradients, "q8_hook", torch.float32)
    group = innet_group(state.process_group)
    residual = state.of(bucket)
    gradients.add_(residual)
    array, lost = as_array(gradients), as_array(residual)
    work = group.run(lambda comm: comm.iallreduce_q8(array, out=array, lost=lost), [gradients])
    return mean_of_sum(work, group.size())
