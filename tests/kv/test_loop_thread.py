"""Work on another thread's event loop: it ends with whoever waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from innet.errors import KVError
from innet.kv.loop_thread import LoopThread


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    made = LoopThread("the thread of a test")
    yield made
    made.close()


async def test_a_cancelled_caller_continues_when_the_work_has_ended(thread: LoopThread) -> None:
    begun, may_end = threading.Event(), threading.Event()
    ended: list[str] = []

    async def work() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            # As a load is that writes to its caller's memory at this moment.
            await asyncio.to_thread(may_end.wait)
            ended.append("work")

    waiting = asyncio.ensure_future(thread.call(work()))
    waiting.add_done_callback(lambda _: ended.append("caller"))
    await asyncio.to_thread(begun.wait)
    for _ in range(2):  # who is impatient, too
        waiting.cancel()
        await asyncio.sleep(0)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended == ["work", "caller"]


async def test_work_cancelled_before_its_start_never_runs(thread: LoopThread) -> None:
    release, begun = threading.Event(), []

    async def hold_up() -> None:
        release.wait()  # the loop does nothing else meanwhile

    async def work() -> None:
        begun.append(1)

    held = thread.submit(hold_up())
    waiting = asyncio.ensure_future(thread.call(work()))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.wrap_future(held)
    assert not begun


def test_an_interrupted_caller_continues_when_the_work_has_ended(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()
    ended: list[str] = []

    async def work() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            for _ in range(1000):  # as a load that writes to its caller's memory until it has ended
                await asyncio.sleep(0)
            ended.append("work")

    submit = thread.submit

    def interrupted() -> None:
        begun.wait()
        raise KeyboardInterrupt

    def submit_and_interrupt(coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        future = submit(coroutine)
        monkeypatch.setattr(future, "result", interrupted)
        return future

    monkeypatch.setattr(thread, "submit", submit_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        thread.run(work())
    assert ended == ["work"]


async def test_results_and_errors_are_returned(thread: LoopThread) -> None:
    async def work(number: int) -> int:
        await asyncio.sleep(0)
        return 10 // number

    assert await thread.call(work(2)) == 5
    with pytest.raises(ZeroDivisionError):
        await thread.call(work(0))


async def test_pending_work_fails_when_the_thread_closes(thread: LoopThread) -> None:
    begun = threading.Event()

    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    waiting = asyncio.ensure_future(thread.call(work()))
    await asyncio.to_thread(begun.wait)
    await asyncio.to_thread(thread.close)
    with pytest.raises(KVError, match="the thread of a test is closed"):
        await waiting
    with pytest.raises(KVError, match="is closed"):
        await thread.call(work())
