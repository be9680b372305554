"""The mean over the ranks whose gradients are ready in time; late gradients join the next step."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

from innet.collectives import KOfN, PartialSum
from innet.torch_backend.hooks.error_feedback import ErrorFeedback
from innet.torch_backend.hooks.gradients import GradientFuture, gradients_of, innet_group
from innet.torch_backend.tensors import as_array


class KOfNState(ErrorFeedback):
    """The state of :func:`k_of_n_hook`; its residual holds the late gradients.

    Args:
        parameters: of the model.
        policy: the number of ranks that a bucket needs, and how long it waits for the others. It
            may change between steps, at the same step on all ranks: ``KOfN(size)`` waits for all
            ranks, so it leaves no residual.
        process_group: of the model; by default the default group.

    Attributes:
        policy: as given.
        contributors: by the number of a bucket, the ranks in its latest mean.
    """

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        policy: KOfN,
        process_group: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__(parameters, process_group)
        self.policy = policy
        self.contributors: dict[int, tuple[int, ...]] = {}


def k_of_n_hook(state: KOfNState, bucket: GradBucket) -> GradientFuture:
    """The mean over the ranks whose gradients of this bucket are ready in time.

    All ranks receive the same bits. Late gradients are added to those of the rank's next step.
    Every rank computes every step, so the hook helps where ranks are late from time to time, and
    not where one rank is always slow (docs/stragglers.md).

    Raises:
        CollectiveError: the policy needs more ranks than there are, or the state is of another
            model.

    Example::

        state = hooks.KOfNState(model.parameters(), innet.KOfN(k=7, deadline_s=0.02))
        model.register_comm_hook(state, hooks.k_of_n_hook)
        checkpoint["hook"] = state.state_dict()
    """
    gradients = bucket.buffer()
    group = innet_group(state.process_group)
    array, late = as_array(gradients), as_array(state.of(bucket))
    number = bucket.index()

    def take(part: PartialSum) -> None:
        state.contributors[number] = part.contributors
        gradients.div_(len(part.contributors))

    work = group.run(
        lambda comm: comm.iallreduce_of(array, state.policy, out=array, late=late),
        [gradients],
        take,
    )
    return gradients_of(work)
