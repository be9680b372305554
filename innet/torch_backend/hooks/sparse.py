"""The largest gradients on the wire, by element or by block; the others wait for the next step."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

from innet._native import _core
from innet.torch_backend.hooks.error_feedback import ErrorFeedback
from innet.torch_backend.hooks.gradients import (
    GradientFuture,
    checked_ratio,
    innet_group,
    mean_of_sum,
    require_types,
)
from innet.torch_backend.tensors import as_array


class TopKState(ErrorFeedback):
    """The state of :func:`topk_hook`.

    Args:
        parameters: of the model.
        ratio: the part of each bucket's gradients that is sent, above 0 and at most 1.
        process_group: of the model; by default the default group.

    Raises:
        CollectiveError: there is no such ratio.
    """

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        ratio: float = 0.01,
        process_group: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__(parameters, process_group)
        self.ratio = checked_ratio(ratio)


def topk_hook(state: TopKState, bucket: GradBucket) -> GradientFuture:
    """The mean of the largest gradients of each rank, with error feedback.

    Each rank sends the part ``ratio`` of its gradients that is largest in magnitude; what it does
    not send is added to the gradients of the next step. NaN and infinity count as the largest; they
    are sent and not kept. (Y. Lin et al., "Deep Gradient Compression", 2018, without its momentum
    correction.)

    Raises:
        CollectiveError: the gradients are neither float32 nor float64, or the state is of another
            model.

    Example::

        state = hooks.TopKState(model.parameters(), ratio=0.01)
        model.register_comm_hook(state, hooks.topk_hook)
    """
    gradients = bucket.buffer()
    require_types(gradients, "topk_hook", torch.float32, torch.float64)
    group = innet_group(state.process_group)
    residual = state.of(bucket)
    gradients.add_(residual)
    count = max(1, round(gradients.numel() * state.ratio))
    # PyTorch takes NaN for the largest of all.
    largest = torch.topk(gradients.abs(), count, sorted=False).indices
    sent = gradients[largest]
    residual.copy_(gradients).index_fill_(0, largest, 0)
    residual.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
    indices, values = as_array(largest), as_array(sent)
    work = group.run(
        lambda comm: comm.iallreduce_sparse(indices, values, gradients.numel()),
        [gradients],
        lambda total: gradients.copy_(torch.from_numpy(total)),
    )
    return mean_of_sum(work, group.size())


_WIDTH = _core.SPARSE_BLOCK_ELEMENTS


class BlockSparseState(ErrorFeedback):
    """The state of :func:`block_sparse_hook`.

    Args:
        parameters: of the model.
        ratio: the part of each bucket's blocks that is sent, above 0 and at most 1; by default all
            blocks that are not zero are, and nothing is lost.
        process_group: of the model; by default the default group.

    Raises:
        CollectiveError: there is no such ratio.
    """

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        ratio: float | None = None,
        process_group: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__(parameters, process_group)
        self.ratio = None if ratio is None else checked_ratio(ratio)


def block_sparse_hook(state: BlockSparseState, bucket: GradBucket) -> GradientFuture:
    """The mean of the gradients, sent without the blocks of 32 that are zero.

    As exact as no hook at all, and right where most gradients are zero: those of embeddings, of
    experts, of frozen rows. With the state's ``ratio``, each rank sends that part of its blocks
    that has the largest norms, and adds what it does not send to the gradients of the next step.
    NaN and infinity make a block's norm the largest; they are sent and not kept.

    Raises:
        CollectiveError: the gradients are not float32, or the state is of another model.

    Example::

        state = hooks.BlockSparseState(model.parameters())
        model.register_comm_hook(state, hooks.block_sparse_hook)
    """
    gradients = bucket.buffer()
    require_types(gradients, "block_sparse_hook", torch.float32)
    group = innet_group(state.process_group)
    if state.ratio is not None:
        _keep_largest(gradients, state.of(bucket), state.ratio)
    array = as_array(gradients)
    work = group.run(lambda comm: comm.iallreduce_blocks(array, out=array), [gradients])
    return mean_of_sum(work, group.size())


def _keep_largest(gradients: torch.Tensor, residual: torch.Tensor, ratio: float) -> None:
    """Moves all blocks but the largest from ``gradients`` to ``residual``, once that is added."""
    gradients.add_(residual)
    size = gradients.numel()
    blocks = torch.nn.functional.pad(gradients, (0, -size % _WIDTH)).view(-1, _WIDTH)
    norms = blocks.norm(dim=1)
    # PyTorch takes NaN for the largest of all.
    largest = torch.topk(norms, max(1, round(len(norms) * ratio)), sorted=False).indices
    is_kept_back = torch.ones(len(norms), dtype=torch.bool).index_fill_(0, largest, False)
    is_kept_back = is_kept_back.repeat_interleave(_WIDTH)[:size]
    residual.copy_(gradients).masked_fill_(~is_kept_back, 0)
    residual.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
    gradients.masked_fill_(is_kept_back, 0)
