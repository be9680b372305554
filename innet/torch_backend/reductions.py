"""PyTorch's reduction operators by innet's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed import ReduceOp

from innet.errors import CollectiveError

_AVERAGE = ReduceOp.AVG.value
_SCALED_SUM = ReduceOp.PREMUL_SUM.value


@dataclass(frozen=True, slots=True)
class Reduction:
    """An operator: what the network does, and what each rank does before and after.

    Attributes:
        name: the network's operator.
        averages: whether each rank then divides by the number of ranks.
        factor: what each rank multiplies its tensor by before, or ``None``.
    """

    name: str
    averages: bool = False
    factor: float | torch.Tensor | None = None

    def prepared(self, tensor: torch.Tensor) -> torch.Tensor:
        """What this rank contributes: the tensor itself, or a multiple of it."""
        if self.factor is None:
            return tensor
        return (tensor.detach() * self.factor).to(tensor.dtype)

    def finish(self, result: torch.Tensor, size: int) -> None:
        """Make of the network's result what the caller asked for, in place."""
        if not self.averages:
            return
        plain = result.detach()
        if result.dtype.itemsize == 1:  # fp8 has no division of its own
            plain.copy_(plain.float() / size)
        else:
            plain.div_(size)


_PLAIN = {
    ReduceOp.SUM.value: Reduction("sum"),
    ReduceOp.AVG.value: Reduction("sum", averages=True),
    ReduceOp.MIN.value: Reduction("min"),
    ReduceOp.MAX.value: Reduction("max"),
    ReduceOp.PRODUCT.value: Reduction("prod"),
    ReduceOp.BAND.value: Reduction("band"),
    ReduceOp.BOR.value: Reduction("bor"),
    ReduceOp.BXOR.value: Reduction("bxor"),
}


def reduction_of(op: ReduceOp, dtype: torch.dtype) -> Reduction:
    """The operator ``op`` for tensors of ``dtype``.

    Raises:
        CollectiveError: there is no such reduction.
    """
    stated: Any = op  # PyTorch's stub leaves out most of it
    kind = stated.op.value
    if kind == _SCALED_SUM:
        _require_inexact(dtype, "PREMUL_SUM")
        return Reduction("sum", factor=stated.__getstate__()[1])
    if kind == _AVERAGE:
        _require_inexact(dtype, "AVG")
    reduction = _PLAIN.get(kind)
    if reduction is None:
        raise CollectiveError(
            f"{stated.op} is no reduction; take SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR or "
            "PREMUL_SUM of torch.distributed.ReduceOp"
        )
    return reduction


def _require_inexact(dtype: torch.dtype, operator: str) -> None:
    if not (dtype.is_floating_point or dtype.is_complex):
        raise CollectiveError(
            f"{operator} of {dtype} is not an integer; reduce with ReduceOp.SUM and divide as you "
            "see fit"
        )
