"""A node's completions are delivered in the event loop that began the operations, and no other."""

from __future__ import annotations

import asyncio
import threading

import numpy as np

from innet._native import _core
from innet.security import NodeKeys
from innet.worker import Collector
from innet.worker.collector import LoopCollector

PREFIX = "/j/obj"  # as the fixture `node` serves it
CONTENTS = np.arange(100, dtype=np.uint8)


def publish(node: _core.Node, keys: NodeKeys, number: int) -> int:
    name = _core.Name(f"{PREFIX}/{number}")
    return node.publish_object(name, CONTENTS, keys.object_key(), 1000)


async def test_each_loop_and_thread_receives_its_own_completions(node, keys):
    told: dict[str, list[tuple[int, str]]] = {"loop": [], "thread": []}
    both = asyncio.Event()
    loop = asyncio.get_running_loop()

    def note(who: str, status: int) -> None:
        told[who].append((status, threading.current_thread().name))
        if all(told.values()):
            loop.call_soon_threadsafe(both.set)

    here, thread = LoopCollector(node), Collector(node)
    here.deliver(publish(node, keys, 0), lambda status, _: note("loop", status))
    thread.deliver(publish(node, keys, 1), lambda status, _: note("thread", status))
    await both.wait()
    here.close()
    thread.close()
    assert told["loop"] == [(_core.STATUS_DONE, threading.current_thread().name)]
    assert told["thread"] == [(_core.STATUS_DONE, "innet-collector")]


async def test_a_failing_callback_does_not_block_others(node, keys, caplog):
    collector = LoopCollector(node)
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def fail(_status: int, _detail: str) -> None:
        raise ValueError("a slip")

    collector.deliver(publish(node, keys, 0), fail)
    collector.deliver(publish(node, keys, 1), lambda status, _: ended.set_result(status))
    assert await ended == _core.STATUS_DONE
    assert "a slip" in caplog.text
    collector.close()


async def test_batched_completions_are_delivered_with_the_next_or_on_flush(node, keys):
    collector = LoopCollector(node)
    told: list[int] = []
    loud: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    collector.deliver_batched(publish(node, keys, 0), lambda status, _: told.append(status))
    collector.deliver(publish(node, keys, 1), lambda status, _: loud.set_result(status))
    assert await loud == _core.STATUS_DONE
    assert told == [_core.STATUS_DONE], "it ended before the other"

    flushed: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    quiet, _ = node.publish_objects([f"{PREFIX}/2"], [CONTENTS], keys.object_key(), 1000)
    collector.deliver_batched(quiet, lambda status, _: flushed.set_result(status))
    collector.flush(quiet)
    assert await flushed == _core.STATUS_DONE
    collector.close()


async def test_no_callback_runs_after_close(node, keys):
    collector = LoopCollector(node)
    told: list[int] = []
    collector.deliver(publish(node, keys, 0), lambda status, _: told.append(status))
    collector.close()
    second = publish(node, keys, 1)
    assert node.wait(second, 30.0) is not None, "both have ended"
    await asyncio.sleep(0)
    assert told == []
