"""Time and concurrency in a pool: a window of blocks in flight, and equal work that is shared."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Sequence
from enum import Enum, auto
from typing import Any, Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")
Item = TypeVar("Item")

Progress = Callable[[int, int], None]
"""Called on the pool's thread with the number of finished blocks and the total."""

_PLACES_OF_BLOCK: Final = 4
_PLACE_BYTES: Final = 256 << 10
"""A block of 1 MiB takes four places of a :class:`BlockWindow`; a larger one takes no more."""
_REQUEST_BYTES: Final = 1 << 20
BLOCKS_OF_REQUEST: Final = 4
"""One request is for so many bytes of blocks, or for so many blocks if these are more. Blocks that
are put one by one share requests for so many, because few may be in flight."""
_MOST_FAMILIES: Final = 1024
_FIRST_PAUSE_SHARE: Final = 1 / 8
"""The shortest pause of a :class:`CircuitBreaker`, as a share of the longest."""


def now_s() -> float:
    """The time of the event loop, which may be simulated."""
    return asyncio.get_running_loop().time()


async def gather(works: Sequence[Coroutine[Any, Any, Result]]) -> list[Result]:
    """The results of all; a single coroutine runs without a task of its own."""
    return [await works[0]] if len(works) == 1 else await asyncio.gather(*works)


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
    step: Callable[[int], Awaitable[bool]],
    window: int,
    progress: Progress | None = None,
) -> int:
    """Run steps from the first on, several at once, until one fails.

    Steps behind the failed one are cancelled, because nobody can use their results.

    Args:
        count: of the steps.
        step: runs the step of that number, from 0; false: it failed.
        window: steps at once.
        progress: see :data:`Progress`; steps may finish in any order.

    Returns:
        How many steps succeeded before the first that failed.
    """
    running: dict[asyncio.Future[bool], int] = {}
    total, following, done = count, 0, 0
    try:
        while True:
            while following < count and len(running) < window:
                running[asyncio.ensure_future(step(following))] = following
                following += 1
            if not running:
                return count
            ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for future in ended:
                number = running.pop(future)
                if not future.result():
                    count = min(count, number)
                    continue
                done += 1
                if progress is not None:
                    progress(done, total)
            await cancel_all([future for future, number in running.items() if number > count])
            running = {future: number for future, number in running.items() if number < count}
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
        self.began_s = now_s()
        self._end_s = None if deadline_s is None else self.began_s + deadline_s

    def left_s(self) -> float | None:
        """Seconds until then."""
        return None if self._end_s is None else max(0.0, self._end_s - now_s())


class CircuitBreaker:
    """Excludes a failing peer from requests, for twice as long after each failure in a row.

    The first silence excludes nobody, because a busy machine may have paused. A failed request that
    was sent before the last failure does not count as another one.

    Attributes:
        open_until_s: when the peer may be asked again.
    """

    def __init__(self, longest_s: float) -> None:
        """``longest_s``: limit of a pause."""
        self._longest_s = longest_s
        self._pause_s = 0.0
        self._failed_s: float | None = None
        self.open_until_s = -math.inf

    @property
    def is_at_limit(self) -> bool:
        """Whether the last pause had the longest duration."""
        return self._pause_s >= self._longest_s

    def on_failure(self, began_s: float, now_s: float, *, is_silence: bool) -> None:
        """A request that was sent at ``began_s`` failed: without an answer, or with a refusal."""
        if self._failed_s is not None and began_s < self._failed_s:
            return
        is_first, self._failed_s = self._failed_s is None, now_s
        shortest_s = _FIRST_PAUSE_SHARE * self._longest_s
        self._pause_s = min(max(2 * self._pause_s, shortest_s), self._longest_s)
        if not (is_first and is_silence):
            self.open_until_s = now_s + self._pause_s


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


class Window:
    """A semaphore whose waiters have deadlines, first come, first served.

    A semaphore within ``asyncio.timeout_at`` does the same with a timer for each waiter. Most are
    admitted long before their deadline: here one timer, for the earliest deadline, is enough.
    """

    def __init__(self, size: int) -> None:
        """``size``: how many may be in it."""
        self._free = size
        self._waiting: deque[tuple[asyncio.Future[None], float, int]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def enter(self, end_s: float = math.inf, places: int = 1) -> None:
        """Wait for places; :meth:`leave` gives them back.

        Args:
            end_s: deadline, by the event loop's clock.
            places: how many, all at once; at most the window has.

        Raises:
            TimeoutError: there was no room until then.
        """
        if self.try_enter(places):
            return
        entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((entered, end_s, places))
        self._wake_up_at(end_s)
        try:
            await entered
        except asyncio.CancelledError:
            has_entered = not entered.cancelled() and entered.exception() is None
            self.leave(places if has_entered else 0)
            raise

    def leave(self, places: int = 1) -> None:
        """Give the places to the first waiters."""
        self._free += places
        while self._waiting:
            entered, _, wanted = self._waiting[0]
            if not entered.done():
                if wanted > self._free:
                    break
                self._free -= wanted
                entered.set_result(None)
            self._waiting.popleft()
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def try_enter(self, places: int = 1) -> bool:
        """Take places if they are free and nobody waits."""
        if self._waiting or places > self._free:
            return False
        self._free -= places
        return True

    async def __aenter__(self) -> None:
        await self.enter()

    async def __aexit__(self, *_: object) -> None:
        self.leave()

    def _wake_up_at(self, end_s: float) -> None:
        if end_s == math.inf or (self._timer is not None and self._timer.when() <= end_s):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(end_s, self._end_waits, end_s)

    def _end_waits(self, until_s: float) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, deque()
        for waiter in waiting:
            entered, end_s, _ = waiter
            if entered.done():
                continue
            if end_s <= until_s:
                entered.set_exception(TimeoutError())
            else:
                self._waiting.append(waiter)
        self.leave(0)  # a waiter for fewer places may have been behind one that timed out
        if self._waiting:
            self._wake_up_at(min(end_s for _, end_s, _ in self._waiting))


class BlockWindow(Window):
    """The blocks in flight: so many of 1 MiB or more, or as many MiB of smaller ones, of which it
    has at most four times as many.

    Blocks count as large until one of their family has been seen.
    """

    def __init__(self, large_blocks: int) -> None:
        """``large_blocks``: how many of 1 MiB or more may be in flight."""
        self._size = _PLACES_OF_BLOCK * large_blocks
        super().__init__(self._size)
        self._block_bytes: dict[Hashable, int] = {}

    def on_seen(self, blocks: Iterable[tuple[Hashable, int]]) -> None:
        """Record the families and sizes of blocks; the largest of a family counts."""
        last: Hashable | None = None
        last_bytes = 0
        for family, block_bytes in blocks:
            if family is last and block_bytes <= last_bytes:
                continue
            last, last_bytes = family, max(block_bytes, self._block_bytes.get(family, 0))
            if len(self._block_bytes) == _MOST_FAMILIES:
                self._block_bytes.clear()
            self._block_bytes[family] = last_bytes

    def size_of(self, families: Iterable[Hashable]) -> int:
        """Bytes of the largest block that the families are known to have."""
        large = _PLACES_OF_BLOCK * _PLACE_BYTES
        largest, last = 0, None
        for family in families:
            if family is not last:
                last, largest = family, max(largest, self._block_bytes.get(family, large))
        return largest or large

    def places(self, block_bytes: int, blocks: int = 1) -> int:
        """Places that blocks in flight take."""
        return min(self._size, blocks * min(_PLACES_OF_BLOCK, -(-block_bytes // _PLACE_BYTES)))

    def together(self, block_bytes: int) -> int:
        """Blocks of one request or fetch: at least two of them are in flight."""
        blocks = max(BLOCKS_OF_REQUEST, _REQUEST_BYTES // block_bytes)
        return max(1, min(blocks, self.blocks(block_bytes) // 2))

    def blocks(self, block_bytes: int) -> int:
        """How many blocks of that size may be in flight."""
        return self._size // self.places(block_bytes)
