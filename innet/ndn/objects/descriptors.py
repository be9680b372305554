"""Descriptors that threads use, and threads that may wait for other programs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


class OpenDescriptor:
    """A descriptor that is closed with its last reference: a thread may use it until then, and
    another file may have its number afterwards.

    Attributes:
        number: of the descriptor, which this object takes over.
    """

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


async def in_daemon_thread(work: Callable[[], Result]) -> Result:
    """The result of ``work`` in a thread of its own, which does not delay the process's end."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def report(set_outcome: Callable[[], None]) -> None:
        if not done.done():
            set_outcome()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # raised where it is awaited
            failure = error
            outcome = lambda: done.set_exception(failure)  # noqa: E731
        else:
            outcome = lambda: done.set_result(result)  # noqa: E731
        with contextlib.suppress(RuntimeError):  # the loop ended meanwhile
            loop.call_soon_threadsafe(report, outcome)

    threading.Thread(target=run, daemon=True, name="innet-descriptor").start()
    return await done
