"""What a coalescing manager that fails must not leave behind.

PyTorch's ``_coalescing_manager`` marks a group as recording and takes the mark away when its body
ends well. After an error it stays, and each later ``all_reduce`` on the group is recorded for a
manager that is gone, instead of done: nothing fails, nothing is reduced. So the error of an
operation that is called in such a body takes the mark away here.
"""

from __future__ import annotations

from typing import Protocol

from torch.distributed import distributed_c10d


class Recording(Protocol):
    """A process group that remembers what is called inside a coalescing manager."""

    def stop_recording(self) -> None:
        """Forget it."""


def stop_recording(group: Recording) -> None:
    """Forget what ``group`` recorded, and that it does."""
    group.stop_recording()
    distributed_c10d._world.pg_coalesce_state.pop(group, None)  # type: ignore[call-overload]
