"""What PyTorch holds of an operation: who waits hears of its end, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from innet.torch_backend.work import CollectiveWork, Copy, Part

pytestmark = pytest.mark.torch


class Late:
    """An operation of the network that ends when a test says so."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Any], None]] = []
        self._ended = False

    def end(self) -> None:
        self._ended = True
        for callback in self._callbacks:
            callback(self)

    def wait(self, timeout_s: float | None = None) -> None:
        assert self._ended

    def done(self) -> bool:
        return self._ended

    def cancel(self) -> None:
        """Nobody does."""

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)


def test_a_future_completes_after_the_group_was_left() -> None:
    callbacks, operation, tensor = ThreadPoolExecutor(1), Late(), torch.ones(3)
    future = CollectiveWork([Part(operation, None)], [tensor], callbacks).get_future()
    callbacks.shutdown()
    operation.end()
    assert future.done()
    assert future.value() == [tensor]


def test_a_copy_to_the_device_that_fails_is_heard_of_from_the_future() -> None:
    def fail() -> None:
        raise RuntimeError("the device is gone")

    operation = Late()
    with ThreadPoolExecutor(1) as callbacks:
        stored = [Copy(fail, lambda: None)]
        work = CollectiveWork([Part(operation, None)], [], callbacks, stored=stored)
        future = work.get_future()
        operation.end()
    assert future.done()
    with pytest.raises(RuntimeError, match="the device is gone"):
        future.wait()
