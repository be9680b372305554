"""What PyTorch's profilers see of the network's operations: an event from start to end of each."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import torch
from torch._C import _distributed_c10d as c10d
from torch._C._autograd import _profiler_enabled as profiler_enabled
from torch._C._autograd import _record_function_with_args_enter as enter

from innet.torch_backend.options import BACKEND_NAME

__all__ = ["ProfilerEvent", "profiler_enabled"]


class ProfilerEvent:
    """An operation under way, as ``torch.profiler`` and ``torch.autograd.profiler`` record it.

    It is called as Gloo's are, ``innet:all_reduce`` for ``gloo:all_reduce``, or as
    ``torch.distributed.record_comm`` says. With ``record_shapes`` it has those of the input.
    """

    def __init__(self, operation: str, inputs: Sequence[torch.Tensor]) -> None:
        """Begin it, in the thread that has the profiler on."""
        title = c10d._get_comm_profiling_name() or f"{BACKEND_NAME}:{operation}"
        self._thread = threading.get_ident()
        self._ended = threading.Event()
        # The profiler belongs to this thread: a future's callback takes it along to the end's.
        self._end: torch.futures.Future[None] = torch.futures.Future()
        torch.ops.profiler._call_end_callbacks_on_jit_fut._RecordFunction(
            enter(title, *inputs), self._end
        )

    def end(self) -> None:
        """The operation has ended, well or not."""
        if threading.get_ident() == self._thread:
            # What ends in the thread where it began counts as a part of what that thread does.
            threading.Thread(target=self._set_end, name="innet-profiler").start()
        else:
            self._set_end()

    def wait(self) -> None:
        """Wait until the end is recorded: the profiler may be turned off next."""
        self._ended.wait()

    def _set_end(self) -> None:
        self._end.set_result(None)
        self._ended.set()
