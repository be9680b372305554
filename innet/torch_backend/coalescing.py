"""What a coalescing manager that fails must not leave behind.

PyTorch's ``_coalescing_manager`` marks a group as recording and takes the mark away when its body
ends well. After an error it stays, and each later ``all_reduce`` on the group is recorded for a
manager that is gone, instead of done: nothing fails, nothing is reduced. So the error of an
operation that is called in such a body takes the mark away here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from torch.distributed import distributed_c10d


class Recording(Protocol):
    """A process group that remembers what is called inside a coalescing manager."""

    def stop_recording(self) -> None:
        """Forget it."""


_Group = TypeVar("_Group", bound=type[Recording])


def stops_recording_on_error(*operations: str) -> Callable[[_Group], _Group]:
    """Class decorator: an error of one of these methods ends the recording that it was part of."""

    def decorate(group: _Group) -> _Group:
        for name in operations:
            setattr(group, name, _stopping_on_error(getattr(group, name)))
        return group

    return decorate


def _stopping_on_error(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def operation(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except Exception:
            self.stop_recording()
            distributed_c10d._world.pg_coalesce_state.pop(self, None)
            raise

    return operation
