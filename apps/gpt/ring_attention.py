"""Attention over a context that is cut among ranks (Ring Attention, Liu et al. 2023).

PyTorch's ``context_parallel`` replaces the attention kernels of GPUs and has none for the CPU's, so
the ring is made here: each rank keeps its queries, keys and values go round, and the parts of the
softmax are put together by their log-sum-exp (FlashAttention's way).
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.distributed as dist


class RingAttention:
    """Causal attention among the ranks of a group; rank r has the r-th part of the context.

    Example::

        block.attention.attend = RingAttention(mesh.get_group("cp"))
    """

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._group = group

    def __call__(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """From shape ``(batch, heads, part of the context, head size)`` each to the same."""
        rank, size = self._group.rank(), self._group.size()
        scaled = query / math.sqrt(query.shape[-1])
        result = torch.zeros_like(query)
        total = torch.full_like(query[..., :1], -math.inf)
        for distance in range(size):
            if distance:
                key, value = _pass_on(torch.stack((key, value)), self._group).unbind()
            if distance > rank:
                # A later part of the context, which is not to be seen. It stays in the graph: all
                # ranks must have the same one, for backward passes gradients round as well.
                result = result + 0 * value
                continue
            scores = scaled @ key.transpose(-2, -1)
            if distance == 0:
                scores = scores + torch.full(scores.shape[-2:], -math.inf).triu(1)
            both = torch.logaddexp(total, scores.logsumexp(-1, keepdim=True))
            result = result * (total - both).exp() + (scores - both).exp() @ value
            total = both
        return result


class _Pass(torch.autograd.Function):
    """Hands a tensor to the next rank of the ring; its gradient goes back the other way."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
        ctx.group = group
        return _rotate(tensor, group, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _rotate(gradients[0], ctx.group, -1), None


def _pass_on(tensor: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    received: torch.Tensor = _Pass.apply(tensor, group)  # type: ignore[no-untyped-call]
    return received


def _rotate(tensor: torch.Tensor, group: dist.ProcessGroup, steps: int) -> torch.Tensor:
    rank, size = group.rank(), group.size()
    received = torch.empty_like(tensor, memory_format=torch.contiguous_format)
    operations = [
        dist.P2POp(dist.isend, tensor.contiguous(), group=group, group_peer=(rank + steps) % size),
        dist.P2POp(dist.irecv, received, group=group, group_peer=(rank - steps) % size),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return received
