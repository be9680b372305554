"""The largest gradients alone on the wire, added sparsely."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

from innet.torch_backend.hooks.error_feedback import ErrorFeedback
from innet.torch_backend.hooks.gradients import GradientFuture, mean_of_sum, require_types
from innet.torch_backend.hooks.group import innet_group
from innet.torch_backend.hooks.ratio import checked_ratio
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
