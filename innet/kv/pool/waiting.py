"""Concurrent work in a pool: waiting for it, counting its results, and sharing equal work."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice
from numbers import Real
from typing import Any, Generic, TypeVar

from innet.errors import KVError

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")
Item = TypeVar("Item")

Progress = Callable[[int, int], None]
"""Called on the pool's thread with the number of finished blocks and the total."""


def now_s() -> float:
    """The time of the event loop, which may be simulated."""
    return asyncio.get_running_loop().time()


def is_seconds(value: object) -> bool:
    """Whether a caller's value is a length of time: a finite number from 0 on."""
    return isinstance(value, Real) and 0 <= float(value) < math.inf


async def gather(works: Sequence[Coroutine[Any, Any, Result]]) -> list[Result]:
    """The results of all; a single coroutine runs without a task of its own.

    When one raises, or this is cancelled, the others are cancelled, and have ended when it raises.
    """
    if len(works) == 1:
        return [await works[0]]
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            if not task.cancelling():
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def wait_to_end(work: asyncio.Future[Any]) -> None:
    """Wait until ``work`` has ended; raise a cancellation of the caller afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def cancel_all(futures: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel all, and wait until they have ended."""
    for future in futures:
        future.cancel()
    if futures:
        await asyncio.gather(*futures, return_exceptions=True)


async def count_done_in_order(
    count: int,
    step: Callable[[range], Awaitable[int]],
    together: int,
    window: int,
    progress: Progress | None = None,
) -> int:
    """Do items from the first on, several at once, until one fails.

    Steps behind a failed item are cancelled, because nobody can use their results.

    Args:
        count: of the items.
        step: does the items of these numbers, from 0; returns how many succeeded before the first
            that failed.
        together: items of a step.
        window: steps at once.
        progress: see :data:`Progress`; steps may finish in any order.

    Returns:
        How many items succeeded before the first that failed.
    """
    running: dict[asyncio.Future[int], range] = {}
    total, done = count, 0
    following = iter([range(count)[at : at + together] for at in range(0, count, together)])
    try:
        while True:
            for items in islice(following, window - len(running)):
                if items.start < count:
                    running[asyncio.ensure_future(step(items))] = items
            if not running:
                return count
            ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for future in ended:
                items, succeeded = running.pop(future), future.result()
                if succeeded < len(items):
                    count = min(count, items.start + succeeded)
                done += succeeded
                if progress is not None and succeeded:
                    progress(done, total)
            await cancel_all([future for future, items in running.items() if items.start >= count])
            running = {future: items for future, items in running.items() if items.start < count}
    finally:
        await cancel_all(list(running))


async def count_to_gap(
    items: Sequence[Item],
    absence: Callable[[Item], Coroutine[Any, Any, Result | None]],
    window: int,
) -> tuple[int, Result | None]:
    """How many of the first items exist without a gap, and the absence of the next one.

    ``absence`` returns ``None`` for an item that exists; ``window`` of them run at once.
    """
    for start in range(0, len(items), window):
        absences = await gather([absence(each) for each in items[start : start + window]])
        for place, gap in enumerate(absences, start):
            if gap is not None:
                return place, gap
    return len(items), None


class Deadline:
    """When a load has to end; ``None``: each block has the pool's timeout."""

    def __init__(self, deadline_s: float | None) -> None:
        """
        Raises:
            KVError: it is not a number.
        """
        if deadline_s is not None and not (isinstance(deadline_s, Real) and deadline_s < math.inf):
            raise KVError(f"a deadline is a number of seconds, not {deadline_s!r}")
        self.began_s = now_s()
        self._end_s = None if deadline_s is None else self.began_s + deadline_s

    def left_s(self) -> float | None:
        """Seconds until then."""
        return None if self._end_s is None else max(0.0, self._end_s - now_s())


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """How long loads of blocks may take, by the event loop's clock.

    Attributes:
        end_s: when a call ends, with all of its blocks.
        block_s: time of each block from the start of its fetch, after which the pool's window had
            room for it.
    """

    end_s: float = math.inf
    block_s: float = math.inf

    def end_of_block_s(self) -> float:
        """When a block has to be here whose fetch starts now."""
        return min(self.end_s, now_s() + self.block_s)

    def begun(self) -> TimeLimit:
        """The limit of a block whose time starts now."""
        return TimeLimit(self.end_of_block_s())

    def wait(self) -> asyncio.Timeout:
        """Raises TimeoutError at the end of the call."""
        return asyncio.timeout_at(None if self.end_s == math.inf else self.end_s)


class TimedLock:
    """A lock whose holder lets the next caller in after a time at the latest."""

    def __init__(self, longest_s: float) -> None:
        """``longest_s``: that time."""
        self._longest_s = longest_s
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Hold it until the end of the block, or until its time is over."""
        is_held = True

        def release() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                self._lock.release()

        await self._lock.acquire()
        timer = asyncio.get_running_loop().call_later(self._longest_s, release)
        try:
            yield
        finally:
            timer.cancel()
            release()


class GivenUp(Enum):
    """The result of shared work whose owner was cancelled."""

    GIVEN_UP = auto()


class SingleFlight(Generic[Key, Result]):
    """Concurrent equal work runs once.

    The first caller runs it; if it is cancelled, one of the waiting callers starts again.
    """

    def __init__(self) -> None:
        self._flights: dict[Key, asyncio.Future[Result | GivenUp]] = {}

    def __contains__(self, key: Key) -> bool:
        """Whether such work is running."""
        return key in self._flights

    async def run(self, key: Key, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """The result of ``work``, or of equal work that is running."""
        while (flight := self._flights.get(key)) is not None:
            result = await asyncio.shield(flight)
            if not isinstance(result, GivenUp):
                return result
        own = self._flights[key] = asyncio.get_running_loop().create_future()
        try:
            result = await work()
        except Exception as error:
            own.set_exception(error)
            own.exception()  # nobody may be waiting for it
            raise
        else:
            own.set_result(result)
            return result
        finally:
            del self._flights[key]
            if not own.done():
                own.set_result(GivenUp.GIVEN_UP)

    def begin(self, key: Key) -> bool:
        """Begin work that others wait for until :meth:`end`; false: equal work is running."""
        if key in self._flights:
            return False
        self._flights[key] = asyncio.get_running_loop().create_future()
        return True

    def end(self, key: Key, result: Result | None) -> None:
        """End work; without a result, one of the waiting callers starts again."""
        own = self._flights.pop(key)
        own.set_result(GivenUp.GIVEN_UP if result is None else result)
