"""What ``torch.compile`` must not follow into."""

from __future__ import annotations

from typing import Any, TypeVar

from torch._C._dynamo.eval_frame import (
    _FrameAction,
    _FrameExecStrategy,
    set_code_exec_strategy,
)

_SKIP = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
_Function = TypeVar("_Function")


def not_compiled(function: _Function) -> _Function:
    """Decorator: ``torch.compile`` leaves the function, and what it calls, as they are written.

    PyTorch's C++ calls a process group in the middle of compiled code (DistributedDataParallel does
    when it forms its buckets anew), where each Python function that starts is compiled: of a
    process group, PyTorch 2.13 refuses to. Unlike ``torch.compiler.disable`` it adds nothing to a
    call, and does not import the compiler.
    """
    code: Any = function
    set_code_exec_strategy(code.__code__, _SKIP)
    return function
