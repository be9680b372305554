"""What PyTorch holds of an operation: who waits hears of its end, whatever happens meanwhile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from innet.collectives.work import Promise
from innet.torch_backend.work import CollectiveWork, Copy, Part

pytestmark = pytest.mark.torch


def test_a_future_completes_after_leaving_the_group() -> None:
    operation: Promise[None] = Promise()
    callbacks, tensor = ThreadPoolExecutor(1), torch.ones(3)
    future = CollectiveWork([Part(operation, None)], [tensor], callbacks).get_future()
    callbacks.shutdown()
    operation.succeed(None)
    assert future.done()
    assert future.value() == [tensor]


def test_a_failed_copy_to_the_device_fails_the_future() -> None:
    def fail() -> None:
        raise RuntimeError("the device is gone")

    operation: Promise[None] = Promise()
    with ThreadPoolExecutor(1) as callbacks:
        stored = [Copy(fail, lambda: None)]
        work = CollectiveWork([Part(operation, None)], [], callbacks, stored=stored)
        future = work.get_future()
        operation.succeed(None)
    assert future.done()
    with pytest.raises(RuntimeError, match="the device is gone"):
        future.wait()


def test_an_operation_that_ends_just_after_a_short_wait_has_not_failed() -> None:
    class EndsAfterTheWait(Promise[None]):
        def wait(self, timeout_s: float | None = None) -> None:
            if self.done():
                return super().wait(timeout_s)
            self.succeed(None)
            raise TimeoutError

    finished: list[str] = []
    part = Part(EndsAfterTheWait(), lambda: finished.append("finished"))

    assert part.settle(0.0)
    assert (part.error, finished) == (None, ["finished"])
