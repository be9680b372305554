"""Gradients in 16 bits on the wire."""

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

from innet.torch_backend.hooks.gradients import GradientFuture
from innet.torch_backend.hooks.group import innet_group


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
