"""PyTorch's reduction operators by innet's names."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.distributed import ReduceOp

from innet.errors import CollectiveError

# Operator, what the network does, and whether each rank then divides by the number of ranks.
_OPERATORS: tuple[tuple[object, str, bool], ...] = (
    (ReduceOp.SUM, "sum", False),
    (ReduceOp.AVG, "sum", True),
    (ReduceOp.MIN, "min", False),
    (ReduceOp.MAX, "max", False),
    (ReduceOp.PRODUCT, "prod", False),
)


@dataclass(frozen=True, slots=True)
class Reduction:
    """An operator: what the network does, and whether each rank then divides by their number."""

    name: str
    averages: bool

    def finish(self, result: torch.Tensor, size: int) -> None:
        """Make of the network's result what the caller asked for, in place."""
        if self.averages:
            result.detach().div_(size)


def reduction_of(op: ReduceOp, dtype: torch.dtype) -> Reduction:
    """The operator ``op`` for tensors of ``dtype``.

    Raises:
        CollectiveError: there is no such reduction.
    """
    for known, name, averages in _OPERATORS:
        # In this order: PyTorch's operator knows how to compare itself with the enumeration.
        if op == known:
            _require_average(averages, dtype)
            return Reduction(name, averages)
    raise CollectiveError(
        "the innet backend reduces with SUM, AVG, MIN, MAX and PRODUCT; for bits (BAND, BOR, BXOR) "
        "use all_gather() and combine, for PREMUL_SUM multiply before a SUM"
    )


def _require_average(averages: bool, dtype: torch.dtype) -> None:
    if averages and not dtype.is_floating_point:
        raise CollectiveError(
            f"an average of {dtype} is not an integer; reduce with ReduceOp.SUM and divide as you "
            "see fit"
        )
