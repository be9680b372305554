"""No exception leaves an operation without an end: each ends with its result or with an error."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from innet._native import _core
from innet.collectives.work import NodeWork, Work
from innet.security import NodeKeys
from innet.worker import Collector
from innet.worker.collector import LoopCollector

PREFIX = "/j/obj"  # as the fixture `node` serves it
End = tuple[int, str]


def publish(node: _core.Node, keys: NodeKeys, number: int) -> int:
    name = _core.Name(f"{PREFIX}/{number}")
    return node.publish_object(name, np.zeros(100, np.uint8), keys.object_key(), 1000)


def fetch_for_ever(node: _core.Node) -> int:
    """An operation that does not end by itself."""
    into = _core.ObjectBuffer()
    nowhere, key = _core.Name("/nowhere"), _core.Name("/k")
    return node.fetch_object(nowhere, nowhere, key, into, 3600.0)


class BrokenQueue:
    """A completion queue that cannot be read."""

    def __init__(self, queue: _core.CompletionQueue) -> None:
        self._queue = queue
        self.fd = queue.fd

    def add(self, operation: int) -> None:
        self._queue.add(operation)

    def take(self) -> list[Any]:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


class Ends:
    """What callbacks were told, for the test to wait for."""

    def __init__(self) -> None:
        self._ends: dict[str, End] = {}
        self._changed = threading.Condition()

    def note(self, what: str) -> Callable[[int, str], None]:
        """A callback that notes the end of ``what``."""

        def ended(status: int, detail: str) -> None:
            with self._changed:
                self._ends[what] = (status, detail)
                self._changed.notify_all()

        return ended

    def wait(self, what: str) -> End:
        """The end of ``what``, once it is told."""
        with self._changed:
            assert self._changed.wait_for(lambda: what in self._ends, 60), f"{what} has no end"
            return self._ends[what]


def test_a_collector_that_fails_ends_all_operations_with_the_error(node, keys):
    collector, ends = Collector(node), Ends()
    collector._queue = cast(_core.CompletionQueue, BrokenQueue(collector._queue))
    collector.deliver(fetch_for_ever(node), ends.note("pending"))
    collector.deliver(publish(node, keys, 0), ends.note("ended"))
    for what in ("pending", "ended"):
        status, detail = ends.wait(what)
        assert status == _core.STATUS_ABORTED
        assert "invalid start byte" in detail
    collector.deliver(fetch_for_ever(node), ends.note("later"))
    assert "invalid start byte" in ends.wait("later")[1]
    collector.close()
    collector.deliver(fetch_for_ever(node), ends.note("after the close"))
    assert "invalid start byte" in ends.wait("after the close")[1]
    collector.close()


async def test_a_loop_s_collector_that_fails_ends_all_operations_with_the_error(node, keys):
    collector = LoopCollector(node)
    collector._queue = cast(_core.CompletionQueue, BrokenQueue(collector._queue))
    loop = asyncio.get_running_loop()

    def delivered(operation: int) -> asyncio.Future[End]:
        future: asyncio.Future[End] = loop.create_future()
        collector.deliver(operation, lambda *end: future.set_result(end))
        return future

    for end in await asyncio.gather(
        delivered(fetch_for_ever(node)), delivered(publish(node, keys, 0))
    ):
        assert end[0] == _core.STATUS_ABORTED
        assert "invalid start byte" in end[1]
    assert "invalid start byte" in (await delivered(fetch_for_ever(node)))[1]
    collector.close()


@pytest.mark.parametrize("error", [ValueError, SystemExit, asyncio.CancelledError])
def test_a_raising_callback_does_not_block_other_completions(node, keys, error):
    collector, ends = Collector(node), Ends()

    def fail(_status: int, _detail: str) -> None:
        raise error("a slip")

    collector.deliver(publish(node, keys, 0), fail)
    collector.deliver(publish(node, keys, 1), ends.note("other"))
    assert ends.wait("other")[0] == _core.STATUS_DONE
    collector.deliver(publish(node, keys, 2), ends.note("next"))
    assert ends.wait("next")[0] == _core.STATUS_DONE
    collector.close()


def test_a_work_whose_completion_fails_ends_with_that_error(node, keys):
    collector = Collector(node)

    def note(_error: BaseException | None) -> None:
        raise ValueError("the log is full")

    work = NodeWork(publish(node, keys, 0), collector, lambda _: None, note)
    ended: list[Work[None]] = []
    work.add_done_callback(ended.append)
    with pytest.raises(ValueError, match="the log is full"):
        work.wait(60)
    collector.close()
