"""Shows the operations of innet's groups to the modes of PyTorch's dispatcher.

PyTorch's own groups call an operator, such as ``c10d::allreduce_``, which ``CommDebugMode`` and
other modes of the dispatcher receive. A process group in Python is called directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _python_dispatch

from innet.torch_backend.work import CollectiveWork

_OPERATORS = {
    "all_gather_single": "_allgather_base_",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced_",
    "all_to_all_single": "alltoall_base_",
    "barrier": "barrier",
    "recv_anysource": "recv_any_source_",
    "reduce_scatter_single": "_reduce_scatter_base_",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced_",
    "send": "send",
}
"""Operators whose name is not the method's and an underscore."""


class _Operator:
    """Looks like one of PyTorch's operators, and calls the method of a group of innet."""

    def __init__(self, operator: Any, call: Callable[[], CollectiveWork]) -> None:
        self._operator = operator
        self._call = call

    def __call__(self, *_args: object, **_kwargs: object) -> CollectiveWork:
        return self._call()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operator, name)

    def __eq__(self, other: object) -> bool:
        return bool(self._operator == other)

    def __hash__(self) -> int:
        return hash(self._operator)

    def __repr__(self) -> str:
        return repr(self._operator)

    def __str__(self) -> str:
        return str(self._operator)


def through_modes(
    method: str,
    call: Callable[[], CollectiveWork],
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> CollectiveWork:
    """Call a method of a group, by way of the modes that are active.

    Modes of PyTorch itself, which compile or need no data, do not receive it.
    """
    modes: Any = _python_dispatch._get_current_dispatch_mode_stack()
    if not modes or any(mode.is_infra_mode() for mode in modes):
        return call()
    operator = getattr(torch.ops.c10d, _OPERATORS.get(method, f"{method}_")).default
    pop: Any = _python_dispatch._pop_mode_temporarily
    with pop() as mode:
        shown = _Operator(operator, lambda: through_modes(method, call, args, kwargs))
        work: CollectiveWork = mode.__torch_dispatch__(shown, (), tuple(args), dict(kwargs))
        return work
