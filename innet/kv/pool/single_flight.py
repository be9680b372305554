"""Equal work that is asked for at the same time is done once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


@dataclass
class _Flight(Generic[Result]):
    task: asyncio.Task[Result]
    waiting: int = 0


class SingleFlight(Generic[Key, Result]):
    """Work by its key. It is cancelled when nobody waits for it any longer."""

    def __init__(self) -> None:
        self._flights: dict[Key, _Flight[Result]] = {}

    def __contains__(self, key: Key) -> bool:
        """Whether such work is under way."""
        flight = self._flights.get(key)
        return flight is not None and not flight.task.done()

    async def run(self, key: Key, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """The result of ``work``, or of equal work that is under way."""
        flight = self._flights.get(key)
        # What has ended stays in the table until its callback has had its turn.
        if flight is None or flight.task.done():
            flight = self._flights[key] = _Flight(asyncio.ensure_future(work()))
            flight.task.add_done_callback(lambda _: self._landed(key, flight))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                self._landed(key, flight)
                flight.task.cancel()

    def _landed(self, key: Key, flight: _Flight[Result] | None) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
