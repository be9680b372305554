"""Where the work of a disk is done: beside the event loop, which it would block."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class DiskWork(Protocol):
    """Does one thing after the other, in the order in which they were asked for."""

    async def run(self, work: Callable[[], Result]) -> Result:
        """Do ``work``, and return or raise what it does."""

    def close(self) -> None:
        """There will be no more work."""


class DiskThread:
    """A thread of its own."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="innet-kv-disk")

    async def run(self, work: Callable[[], Result]) -> Result:
        """See :class:`DiskWork`."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def close(self) -> None:
        """See :class:`DiskWork`."""
        self._executor.shutdown(wait=False)


class InlineDisk:
    """The event loop itself: for virtual time, in which a disk takes none."""

    async def run(self, work: Callable[[], Result]) -> Result:
        """See :class:`DiskWork`."""
        return work()

    def close(self) -> None:
        """See :class:`DiskWork`."""
