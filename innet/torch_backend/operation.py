"""A decorator for the operations of a process group, and their short forms in PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from inspect import Parameter, Signature
from typing import Any, Protocol

import torch
from torch.distributed import ReduceOp, distributed_c10d

from innet.errors import CollectiveError
from innet.torch_backend.dispatch import through_modes
from innet.torch_backend.launcher import Fail
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


class ShortForm:
    """The short form of a method: tensors and values, in place of lists and options.

    ``ProcessGroup`` has both: ``broadcast([tensor], options)`` and ``broadcast(tensor, root)``.
    ``torch.distributed`` calls the long forms. Programs that hold a group may call either form;
    DistributedDataParallel's join calls short forms.
    """

    _VALUES = (torch.Tensor, ReduceOp, ReduceOp.RedOpType, int, timedelta)

    def __init__(self, options: Callable[[], Any], *tensors: str, **fields: str) -> None:
        """
        Args:
            options: makes the options of the long form.
            tensors: the first parameters: tensors, or lists of them.
            fields: by parameter, the field of the options that it sets.
        """
        self._options = options
        self._tensors = tensors
        self._fields = fields
        defaults = {"op": ReduceOp.SUM, "timeout": None}
        kind = Parameter.POSITIONAL_OR_KEYWORD
        names = dict.fromkeys((*tensors, *fields, "timeout"))
        self._signature = Signature(
            [Parameter(n, kind, default=defaults.get(n, Parameter.empty)) for n in names]
        )

    def is_called(self, args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
        """Whether the arguments are of this form: a long form takes lists and options only."""
        return any(isinstance(value, self._VALUES) for value in (*args, *kwargs.values()))

    def long_form(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The arguments of the long form.

        Raises:
            CollectiveError: a timeout is given, which only a barrier has.
        """
        if "tensors" in kwargs:  # all_reduce has a form with a list of tensors and an operator
            kwargs["tensor"] = kwargs.pop("tensors")
        given = self._signature.bind(*args, **kwargs)
        given.apply_defaults()
        values = given.arguments
        if "timeout" not in self._fields and values["timeout"] is not None:
            raise CollectiveError(
                "an operation has the timeout of its group; call group.set_timeout() before it, or "
                "pass timeout= to new_group()"
            )
        options = self._options()
        for name, field in self._fields.items():
            setattr(options, field, values[name])
        return [*(self._listed(name, values[name]) for name in self._tensors), options]

    @staticmethod
    def _listed(name: str, value: Any) -> Any:
        return [value] if name != "tensor" or isinstance(value, torch.Tensor) else value


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
        short_form: the other form of its arguments, if it has one.
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
            if short_form is not None and short_form.is_called(args, kwargs):
                args, kwargs = tuple(short_form.long_form(*args, **kwargs)), {}
            call = functools.partial(method, self, *args, **kwargs)
            if torch._C._len_torch_dispatch_stack():
                call = functools.partial(through_modes, method.__name__, call, args, kwargs)
            if profiler_enabled():
                return _profiled(
                    call,
                    title,
                    [] if inputs is None else _tensors((*args, *kwargs.values())[inputs]),
                )
            return call()

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
        event.wait()
        raise
    work.ends(event)
    return work


def _tensors(argument: Any) -> list[torch.Tensor]:
    """A tensor, a list of them, or the list in a list."""
    if isinstance(argument, torch.Tensor):
        return [argument]
    first = next(iter(argument), None)
    return list(argument if first is None or isinstance(first, torch.Tensor) else first)
