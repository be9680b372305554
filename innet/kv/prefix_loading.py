"""Blocks in their order, many on their way at once, up to the first that cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

Step = Callable[[int], Awaitable[bool]]


async def count_done_in_order(
    count: int, step: Step, window: int, progress: Callable[[int], None] | None = None
) -> int:
    """Do steps from the first on, some at once, until one fails; how many are done before that.

    What was begun behind the one that failed is cancelled: nobody has a use for it.

    Args:
        count: of the steps.
        step: does the step of that number, from 0; false: it failed.
        window: so many at once.
        progress: called with the number of steps done so far, in whatever order.
    """
    running: dict[asyncio.Future[bool], int] = {}
    following = done = 0
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
                    progress(done)
            await _cancel([future for future, number in running.items() if number > count])
            running = {future: number for future, number in running.items() if number < count}
    finally:
        await _cancel(list(running))


async def _cancel(futures: Sequence[asyncio.Future[bool]]) -> None:
    for future in futures:
        future.cancel()
    if futures:
        await asyncio.gather(*futures, return_exceptions=True)
