"""Error feedback: the part of the gradients that was not sent, kept for the next step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

from innet.errors import CollectiveError


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
