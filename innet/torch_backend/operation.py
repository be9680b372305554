"""What the operations of a process group have in common, however PyTorch calls them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch.distributed import distributed_c10d

from innet.torch_backend.launcher import Fail
from innet.torch_backend.short_forms import ShortForm, is_short
from innet.torch_backend.work import CollectiveWork, ProfilerEvent, not_compiled, profiler_enabled


class Recording(Protocol):
    """A process group that records the operations of a coalescing manager."""

    def stop_recording(self) -> None:
        """Drop the record."""


def stop_recording(group: Recording) -> None:
    """End the recording of a coalescing manager that fails.

    ``_coalescing_manager`` marks the group as recording, and removes the mark only when its body
    succeeds. With the mark, PyTorch would record each later ``all_reduce`` on the group for a
    manager that is gone, and reduce nothing.
    """
    group.stop_recording()
    distributed_c10d._world.pg_coalesce_state.pop(group, None)  # type: ignore[call-overload]


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

    An error of the method fails the operation on the other ranks too, and ends the recording that
    it is part of. The method receives the long form of its arguments, and an active profiler
    records it.

    Args:
        title: of the operation, for profilers and messages.
        inputs: index of the argument of the long form with the input of this rank, if there is one.
        short_form: turns the arguments of the short form into those of the long form.
        fails: takes the method's arguments and returns what fails the operation on the other ranks;
            ``None``, or a function that returns ``None``, for a collective.
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
