"""Gradients in 8 bits on the wire, in blocks with a scale."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

from innet.errors import CollectiveError
from innet.torch_backend.hooks.error_feedback import ErrorFeedback
from innet.torch_backend.hooks.group import innet_group
from innet.torch_backend.tensors import as_array


class Q8State(ErrorFeedback):
    """The state of :func:`q8_hook`.

    Args:
        parameters: of the model.
        process_group: of the model; by default the default group.
    """

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        process_group: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__(parameters)
        self.process_group = process_group


def q8_hook(state: Q8State, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
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
    if gradients.dtype != torch.float32:
        raise CollectiveError(
            f"q8_hook takes gradients of float32, not {gradients.dtype}; use fp16_hook or "
            "bf16_hook, or keep the parameters in float32"
        )
    group = innet_group(state.process_group)
    residual = state.of(bucket)
    gradients.add_(residual)
    array, lost = as_array(gradients), as_array(residual)

    def mean(ended: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
        return ended.value()[0].div_(group.size())

    work = group.run(lambda comm: comm.iallreduce_q8(array, out=array, lost=lost), [gradients])
    return work.get_future().then(mean)
