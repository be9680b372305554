"""Communication hooks for DistributedDataParallel.

They send fewer bytes (docs/compression.md), or wait for fewer ranks (docs/stragglers.md).

    from innet.torch_backend import hooks

    model = DistributedDataParallel(model)
    model.register_comm_hook(hooks.Q8State(model.parameters()), hooks.q8_hook)

Each hook gives the mean of the gradients, the same bits on every rank. NaN and infinity on any rank
reach all ranks as NaN or infinity, so that loss scaling sees them.
"""

# Annotations are not postponed: PyTorch checks that those of a hook are its own classes.
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

from innet._native import _core
from innet.collectives import KOfN, PartialSum
from innet.errors import CollectiveError
from innet.torch_backend.process_group import InnetProcessGroup
from innet.torch_backend.tensors import as_array

__all__ = [
    "BlockSparseState",
    "KOfNState",
    "Q8State",
    "TopKState",
    "bf16_hook",
    "block_sparse_hook",
    "fp16_hook",
    "k_of_n_hook",
    "q8_hook",
    "topk_hook",
]


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
    """The one tensor of ``work``, once that has ended."""
    future: GradientFuture = work.get_future().then(lambda ended: ended.value()[0])
    return future


def mean_of_sum(work: dist.Work, ranks: int) -> GradientFuture:
    """The sum that ``work`` leaves in its one tensor, divided in place by the number of ranks."""

    def mean(ended: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
        return ended.value()[0].div_(ranks)

    future: GradientFuture = work.get_future().then(mean)
    return future


class ErrorFeedback:
    """The residual of each parameter: the part of its gradients that was not sent yet.

    Each bucket has one contiguous residual. PyTorch rebuilds the buckets after the first step; the
    residuals then move with their parameters. (F. Seide et al., "1-Bit Stochastic Gradient
    Descent and its Application to Data-Parallel Distributed Training of Speech DNNs", 2014.)

    Args:
        parameters: of the model.
        process_group: of the model; by default the default group.
    """

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        process_group: dist.ProcessGroup | None = None,
    ) -> None:
        self.process_group = process_group
        self._parameters = list(parameters)  # a checkpoint knows them by this order
        self._position = {id(parameter): i for i, parameter in enumerate(self._parameters)}
        self._of_parameter: dict[int, torch.Tensor] = {}
        self._of_bucket: dict[int, tuple[tuple[int, ...], torch.Tensor]] = {}

    def of(self, bucket: GradBucket) -> torch.Tensor:
        """The residual of a bucket, to read and to change in place; zero at first.

        Raises:
            CollectiveError: a parameter in the bucket was not given to the constructor.
        """
        positions = tuple(self._position_of(parameter) for parameter in bucket.parameters())
        known = self._of_bucket.get(bucket.index())
        if known is not None and known[0] == positions:
            return known[1]
        residual = torch.zeros_like(bucket.buffer())
        start = 0
        for position in positions:
            end = start + self._parameters[position].numel()
            part = residual[start:end]
            before = self._of_parameter.get(position)
            if before is not None:
                part.copy_(before)
            self._of_parameter[position] = part
            start = end
        self._of_bucket[bucket.index()] = positions, residual
        return residual

    def state_dict(self) -> dict[str, Any]:
        """Residuals by the number of their parameter, for a checkpoint of this rank."""
        return {"residuals": {i: part.clone() for i, part in self._of_parameter.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint of the same model.

        Raises:
            CollectiveError: it is of a model with other parameters.
        """
        residuals: dict[int, torch.Tensor] = state["residuals"]
        for i, residual in residuals.items():
            if i >= len(self._parameters) or residual.numel() != self._parameters[i].numel():
                raise CollectiveError(
                    f"the checkpoint has a residual of {residual.numel()} elements for parameter "
                    f"{i}, which this model does not have; load that of the same model"
                )
        self._of_parameter = {i: residual.reshape(-1) for i, residual in residuals.items()}
        self._of_bucket.clear()

    def _position_of(self, parameter: torch.Tensor) -> int:
        position = self._position.get(id(parameter))
        if position is None:
            raise CollectiveError(
                "a gradient belongs to a parameter that the hook's state was not made for; pass "
                "all parameters of the model, such as Q8State(model.parameters())"
            )
        return position


def fp16_hook(group: dist.ProcessGroup | None, bucket: GradBucket) -> GradientFuture:
    """The mean of the gradients, sent as float16.

    Each rank divides by the number of ranks and rounds to float16; nodes add in float32 and round
    once each. Larger values than float16 has become infinity: use a ``GradScaler``.

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

    This rank adds its rounding errors to the gradients of the next step. A block of 32
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
