"""What the operations of a process group have in common, however PyTorch calls them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from innet.torch_backend.coalescing import stop_recording
from innet.torch_backend.compilation import not_compiled
from innet.torch_backend.launcher import Fail
from innet.torch_backend.profiling import ProfilerEvent, profiler_enabled
from innet.torch_backend.short_forms import ShortForm, is_short
from innet.torch_backend.work import CollectiveWork

Method = Callable[..., CollectiveWork]


def operation(
    title: str,
    *,
    inputs: int | None = 0,
    short_form: ShortForm | None = None,
    fails: Callable[..., Fail | None] | None = None,
    synchronising: bool = True,
) -> Callable[[Method], Method]:
    """Decorator of a method that starts an operation.

    Its error is one on the other ranks as well and ends the recording that it was part of, its
    short form becomes its long one, and a profiler that is on sees it.

    Args:
        title: what profilers call it.
        inputs: which argument of the long form holds what this rank gives, if any does.
        short_form: gives the arguments of the long form for those of the short one.
        fails: takes what the method takes, and gives what fails the operation on the other ranks;
            ``None`` in its place, or given by it, for a collective.
        synchronising: what :meth:`Communicator.collective` says of a collective.
    """

    def decorate(method: Method) -> Method:
        @not_compiled
        @functools.wraps(method)
        def start(self: Any, *args: Any, **kwargs: Any) -> CollectiveWork:
            try:
                fail = None if fails is None else fails(self, *args, **kwargs)
                with self.launcher.call(title, fail, synchronising=synchronising):
                    return begin(self, *args, **kwargs)
            except BaseException:
                stop_recording(self)
                raise

        def begin(self: Any, *args: Any, **kwargs: Any) -> CollectiveWork:
            if short_form is not None and is_short((*args, *kwargs.values())):
                args, kwargs = short_form(*args, **kwargs), {}
            if profiler_enabled():
                return _profiled(
                    lambda: method(self, *args, **kwargs),
                    title,
                    [] if inputs is None else _tensors((*args, *kwargs.values())[inputs]),
                )
            return method(self, *args, **kwargs)

        return start

    return decorate


def _profiled(
    start: Callable[[], CollectiveWork], title: str, inputs: Sequence[torch.Tensor]
) -> CollectiveWork:
    event = ProfilerEvent(title, inputs)
    try:
        work = start()
    except BaseException:
        event.end()
        raise
    work.ends(event)
    return work


def _tensors(argument: Any) -> list[torch.Tensor]:
    """A tensor, a list of them, or the list in a list."""
    if isinstance(argument, torch.Tensor):
        return [argument]
    first = next(iter(argument), None)
    return list(argument if first is None or isinstance(first, torch.Tensor) else first)
