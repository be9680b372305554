"""Gradients in 8 bits on the wire, in blocks with a scale."""

import torch
from torch._C._distributed_c10d import GradBucket

from innet.torch_backend.hooks.error_feedback import ErrorFeedback
from innet.torch_backend.hooks.gradients import GradientFuture, mean_of_sum, require_types
from innet.torch_backend.hooks.group import innet_group
from innet.torch_backend.tensors import as_array


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
