"""Time and concurrency in a pool: deadlines, cancellation, and equal work that is shared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Sequence
from enum import Enum, auto
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


def now_s() -> float:
    """The time of the event loop, which may be simulated."""
    return asyncio.get_running_loop().time()


async def gather(works: Sequence[Coroutine[Any, Any, Result]]) -> list[Result]:
    """The results of all; a single one needs no task of its own."""
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


async def enter(window: asyncio.Semaphore, end_s: float) -> None:
    """Take a place in a window; the caller releases it.

    Raises:
        TimeoutError: there was none until ``end_s``, by the event loop's clock.
    """
    if window.locked():
        async with asyncio.timeout_at(end_s):
            await window.acquire()
    else:
        await window.acquire()  # at once, so it needs no timer
