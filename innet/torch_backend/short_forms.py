"""The short forms of a process group's methods: a tensor and arguments, not lists and options.

``ProcessGroup`` has both: ``broadcast([tensor], options)`` and ``broadcast(tensor, root)``.
``torch.distributed`` calls the long forms. Programs that hold a group may call either form;
DistributedDataParallel's join calls short forms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from torch.distributed import ReduceOp

from innet.errors import CollectiveError

LongForm = tuple[Any, ...]
ShortForm = Callable[..., LongForm]
_Options = TypeVar("_Options")
_Tensors = torch.Tensor | Sequence[torch.Tensor]

_OF_SHORT_FORMS = (torch.Tensor, ReduceOp, ReduceOp.RedOpType, int, timedelta)


def is_short(arguments: Sequence[object]) -> bool:
    """Whether the arguments are those of a short form: a long form takes lists and options only."""
    return any(isinstance(argument, _OF_SHORT_FORMS) for argument in arguments)


def allreduce(
    tensor: _Tensors | None = None,
    op: Any = ReduceOp.SUM,
    timeout: timedelta | None = None,
    *,
    tensors: Sequence[torch.Tensor] = (),
) -> LongForm:
    """``allreduce(tensor, op)``, also of a list of tensors."""
    _require_no_timeout(timeout)
    operand = tensors if tensor is None else tensor
    return _as_list(operand), _with(AllreduceOptions(), reduceOp=op)


def broadcast(tensor: torch.Tensor, root: int, timeout: timedelta | None = None) -> LongForm:
    """``broadcast(tensor, root)``."""
    _require_no_timeout(timeout)
    return [tensor], _with(BroadcastOptions(), rootRank=root)


def reduce(
    tensor: torch.Tensor, root: int, op: Any = ReduceOp.SUM, timeout: timedelta | None = None
) -> LongForm:
    """``reduce(tensor, root, op)``."""
    _require_no_timeout(timeout)
    return [tensor], _with(ReduceOptions(), rootRank=root, reduceOp=op)


def allgather(
    output_tensors: Sequence[torch.Tensor],
    input_tensor: torch.Tensor,
    timeout: timedelta | None = None,
) -> LongForm:
    """``allgather(outputs, tensor)``."""
    _require_no_timeout(timeout)
    return [output_tensors], [input_tensor], AllgatherOptions()


def gather(
    output_tensors: Sequence[torch.Tensor],
    input_tensor: torch.Tensor,
    root: int,
    timeout: timedelta | None = None,
) -> LongForm:
    """``gather(outputs, tensor, root)``."""
    _require_no_timeout(timeout)
    return [output_tensors], [input_tensor], _with(GatherOptions(), rootRank=root)


def scatter(
    output_tensor: torch.Tensor,
    input_tensors: Sequence[torch.Tensor],
    root: int,
    timeout: timedelta | None = None,
) -> LongForm:
    """``scatter(output, tensors, root)``."""
    _require_no_timeout(timeout)
    return [output_tensor], [input_tensors], _with(ScatterOptions(), rootRank=root)


def reduce_scatter(
    output: torch.Tensor,
    input: Sequence[torch.Tensor],
    op: Any = ReduceOp.SUM,
    timeout: timedelta | None = None,
) -> LongForm:
    """``reduce_scatter(output, tensors, op)``."""
    _require_no_timeout(timeout)
    return [output], [input], _with(ReduceScatterOptions(), reduceOp=op)


def barrier(timeout: timedelta) -> LongForm:
    """``barrier(timeout)``."""
    return (_with(BarrierOptions(), timeout=timeout),)


def _as_list(tensors: _Tensors) -> Sequence[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else tensors


def _with(options: _Options, **fields: object) -> _Options:
    for name, value in fields.items():
        setattr(options, name, value)
    return options


def _require_no_timeout(timeout: timedelta | None) -> None:
    if timeout is not None:
        raise CollectiveError(
            "an operation has the timeout of its group; call group.set_timeout() before it, or "
            "pass timeout= to new_group()"
        )
