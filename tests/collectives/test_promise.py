"""Works that their maker ends: their end, and what is left of them then."""

from __future__ import annotations

import threading
import time

import pytest

from innet.collectives.work import Deadline, Promise, Work

FOREVER_S = 1e6


def test_only_the_first_end_counts() -> None:
    promise: Promise[int] = Promise()
    promise.succeed(1)
    promise.fail(ValueError("in a callback of the first end"))
    promise.succeed(2)
    assert promise.wait() == 1


def test_an_operation_that_has_ended_keeps_no_thread() -> None:
    before = set(threading.enumerate())
    ended: list[Work[None]] = []
    deadline = Deadline(time.monotonic() + FOREVER_S, lambda: None)
    promise: Promise[None] = Promise(deadline=deadline)
    promise.add_done_callback(ended.append)
    promise.succeed(None)
    assert ended == [promise]
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive()


@pytest.mark.parametrize("waits", [True, False])
def test_an_unfinished_operation_ends_at_its_deadline(waits: bool) -> None:
    def give_up() -> None:
        promise.fail(TimeoutError("nobody came"))

    promise: Promise[None] = Promise(deadline=Deadline(time.monotonic(), give_up))
    if not waits:
        ended = threading.Event()
        promise.add_done_callback(lambda _: ended.set())
        assert ended.wait(30)
    with pytest.raises(TimeoutError, match="nobody came"):
        promise.wait()


def test_a_short_wait_does_not_end_the_operation() -> None:
    deadline = Deadline(time.monotonic() + FOREVER_S, lambda: None)
    promise: Promise[None] = Promise(deadline=deadline)
    with pytest.raises(TimeoutError, match="the operation goes on"):
        promise.wait(0.0)
    assert not promise.done()
