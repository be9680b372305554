"""PyTorch's reduction operators as innet's operators and what each rank adds to them."""

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
    """An operator of the network, and what each rank computes before and after it.

    Attributes:
        name: of the network's operator.
        averages: whether each rank divides the result by the number of ranks.
        factor: multiplies the input of each rank; ``None`` for 1.
    """

    name: str
    averages: bool = False
    factor: float | torch.Tensor | None = None

    def prepared(self, tensor: torch.Tensor) -> torch.Tensor:
        """The contribution of this rank: the tensor, or a multiple of it."""
        if self.factor is None:
            return tensor
        return (tensor.detach() * self.factor).to(tensor.dtype)

    def finish(self, result: torch.Tensor, size: int) -> None:
        """Turn the network's result into the caller's, in place."""
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
        CollectiveError: innet has no such reduction.
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
            f"{operator} of {dtype} would not be an integer; reduce with ReduceOp.SUM and divide "
            "the sum yourself"
        )
