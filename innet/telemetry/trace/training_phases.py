"""Forward, backward and optimizer of a PyTorch program, as spans."""

from __future__ import annotations

import functools
import threading
import time
from typing import Any

import torch
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from innet.telemetry.trace.recorder import Recorder

_MAX_MODULE_DEPTH = 3
"""Modules inside modules that get spans: a wrapper, the model, and its layers."""

_recorder: Recorder | None = None


class _ThreadState(threading.local):
    """When the module calls and optimizer steps under way on a thread began."""

    def __init__(self) -> None:
        self.modules: list[int] = []
        self.step_began_ns = 0


def trace_training_phases(recorder: Recorder) -> None:
    """Record the phases from now on with ``recorder``, for all models of this process.

    Modules and optimizers have hooks for it. The backward pass has none that leaves the autograd
    graph as it is, so ``torch.autograd.backward``, which ``Tensor.backward`` calls, is wrapped.
    """
    global _recorder
    hooks_are_there = _recorder is not None
    _recorder = recorder
    if hooks_are_there:
        return
    state = _ThreadState()
    _trace_modules(state)
    _trace_optimizers(state)
    _trace_backward()


def _record(name: str, category: str, began_ns: int) -> None:
    if _recorder is not None:
        _recorder.span(name, category, began_ns)


def _trace_modules(state: _ThreadState) -> None:
    def enter(_module: torch.nn.Module, _arguments: Any) -> None:
        state.modules.append(time.monotonic_ns())

    def leave(module: torch.nn.Module, _arguments: Any, _result: Any) -> None:
        if not state.modules:
            return
        began_ns = state.modules.pop()
        depth = len(state.modules)
        if depth < _MAX_MODULE_DEPTH:
            name = type(module).__name__
            _record(f"forward {name}" if depth == 0 else name, "forward", began_ns)

    register_module_forward_pre_hook(enter)
    register_module_forward_hook(leave, always_call=True)


def _trace_optimizers(state: _ThreadState) -> None:
    def enter(_optimizer: Any, _arguments: Any, _keywords: Any) -> None:
        state.step_began_ns = time.monotonic_ns()

    def leave(_optimizer: Any, _arguments: Any, _keywords: Any) -> None:
        _record("optimizer", "optimizer", state.step_began_ns)

    register_optimizer_step_pre_hook(enter)
    register_optimizer_step_post_hook(leave)


def _trace_backward() -> None:
    backward = torch.autograd.backward

    @functools.wraps(backward)
    def traced(*arguments: Any, **keywords: Any) -> None:
        began_ns = time.monotonic_ns()
        try:
            backward(*arguments, **keywords)
        finally:
            _record("backward", "backward", began_ns)

    torch.autograd.backward = traced
